# compare: sorted
# What get_current_key() gives for keys of several types.
from flintstream.common import Row, Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment


class ShowKey(KeyedProcessFunction):
    def process_element(self, value, ctx):
        key = ctx.get_current_key()
        yield "%s %r" % (type(key).__name__, key)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()]))
selectors = [
    (lambda t: t[0], Types.STRING()),
    (lambda t: t[1], Types.INT()),
    (lambda t: t[1] + 0.5, Types.DOUBLE()),
    (lambda t: (t[0], t[1]), None),
    (lambda t: (t[0], t[1]), Types.TUPLE([Types.STRING(), Types.INT()])),
    (lambda t: Row(t[0], t[1]), Types.ROW([Types.STRING(), Types.INT()])),
    (lambda t: t[1] == 1, Types.BOOLEAN()),
]
for number, (selector, key_type) in enumerate(selectors):
    ds.key_by(selector, key_type=key_type).process(ShowKey(), Types.STRING()).print("key%d" % number)
env.execute()
