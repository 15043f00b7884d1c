# compare: sorted
# What functions may give back: iterables of many kinds, truth values, objects of any class.
from flintstream.common import Row, Types
from flintstream.datastream import KeyedProcessFunction, ProcessFunction, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([1, 2, 3], Types.INT())
keyed = numbers.key_by(lambda v: 0)


class Give(ProcessFunction):
    def __init__(self, form):
        self.form = form

    def process_element(self, value, ctx):
        return self.form(value)


class GiveKeyed(KeyedProcessFunction):
    def __init__(self, form):
        self.form = form

    def process_element(self, value, ctx):
        return self.form(value)


def show(label, stream):
    stream.map(lambda v: "%s: %s %s" % (label, type(v).__name__, v), Types.STRING()).print()


def ended_early(value):
    yield value
    return
    yield 0


iterables = {
    "string": lambda v: "ab",
    "bytes": lambda v: b"ab",
    "set": lambda v: {v},
    "dict": lambda v: {v: "x"},
    "row": lambda v: Row(v, v + 1),
    "generator": ended_early,
    "nested": lambda v: [[v], (v,)],
    "with none": lambda v: [None, v],
}
for label, form in iterables.items():
    show("flat_map " + label, numbers.flat_map(form))
    show("keyed process " + label, keyed.process(GiveKeyed(form)))
show("process map", numbers.process(Give(lambda v: map(str, range(v)))))
show("keyed flat_map empty", keyed.flat_map(lambda v: ""))
truths = {
    "int": lambda v: v - 1,
    "none": lambda v: None,
    "list": lambda v: [0] if v > 1 else [],
    "nan": lambda v: float("nan"),
    "row": lambda v: Row(),
}
for label, form in truths.items():
    show("filter " + label, numbers.filter(form))
show("keyed filter string", keyed.filter(lambda v: "x" * (v - 1)))
objects = {
    "none": lambda v: None,
    "type": type,
    "exception": lambda v: ValueError(v),
    "complex": lambda v: complex(v, 1),
}
for label, form in objects.items():
    show("map " + label, numbers.map(form))
    show("keyed map " + label, keyed.map(form))
env.execute()
