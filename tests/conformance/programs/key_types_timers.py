# compare: sorted
# Keys of several types in on_timer: they come back as the values that they were, with their state.
from flintstream.common import Row, Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ReducingStateDescriptor


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_reducing_state(
            ReducingStateDescriptor("count", lambda a, b: a + b, Types.INT())
        )

    def process_element(self, value, ctx):
        self.count.add(1)
        ctx.timer_service().register_event_time_timer(7)

    def on_timer(self, timestamp, ctx):
        key = ctx.get_current_key()
        yield "%s %s: %d" % (type(key).__name__, key, self.count.get())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection([("a", 1), ("b", 2), ("a", 1), ("a", 2)], Types.TUPLE([Types.STRING(), Types.INT()]))
selectors = [
    ("string", lambda t: t[0], Types.STRING()),
    ("int", lambda t: t[1], Types.INT()),
    ("long", lambda t: t[1] * 10**12, Types.LONG()),
    ("double", lambda t: t[1] / 4, Types.DOUBLE()),
    ("boolean", lambda t: t[1] == 1, Types.BOOLEAN()),
    ("tuple", lambda t: (t[0], t[1]), Types.TUPLE([Types.STRING(), Types.INT()])),
    ("untyped tuple", lambda t: (t[0], t[1]), None),
    ("untyped string", lambda t: t[0], None),
    ("untyped bytes", lambda t: t[0].encode(), None),
    ("row", lambda t: Row(t[0], t[1]), Types.ROW([Types.STRING(), Types.INT()])),
]
for label, selector, key_type in selectors:
    ds.key_by(selector, key_type=key_type).process(Count(), Types.STRING()).print(label)
env.execute()
