# compare: exact
# Wrong arguments are refused when the program is built.
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()]))


def attempt(label, action):
    try:
        action()
        print(label, "accepted")
    except Exception as error:
        print(label, "refused:", "TypeError" if isinstance(error, TypeError) else "an error")


attempt("map(5)", lambda: ds.map(5))
attempt("flat_map('x')", lambda: ds.flat_map("x"))
attempt("filter(None)", lambda: ds.filter(None))
attempt("key_by(0)", lambda: ds.key_by(0))
attempt("reduce(1)", lambda: ds.key_by(lambda t: t[0]).reduce(1))
attempt("sum(1.5)", lambda: ds.key_by(lambda t: t[0]).sum(1.5))
attempt("partition_custom(1, f)", lambda: ds.partition_custom(1, lambda t: t))
attempt("set_parallelism(0)", lambda: ds.map(lambda t: t).set_parallelism(0))
attempt("project()", lambda: ds.project())
attempt("union of types", lambda: ds.union(env.from_collection([1], Types.INT())))
attempt("keyed shuffle", lambda: ds.key_by(lambda t: t[0]).shuffle())
attempt("keyed uid", lambda: ds.key_by(lambda t: t[0]).uid("u"))
attempt("keyed name", lambda: ds.key_by(lambda t: t[0]).name("n"))
