# compare: sorted
# Deduplication, the largest n by a timer, sessions by timers, a state machine, side outputs through several operators.
from flintstream.common import Row, Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import (
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from flintstream.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
events = [
    ("u1", "login", 1000, 5.0),
    ("u2", "login", 1500, 1.0),
    ("u1", "view", 2000, 2.5),
    ("u1", "view", 2000, 2.5),
    ("u2", "buy", 9000, 20.0),
    ("u3", "buy", 9100, 30.0),
    ("u1", "logout", 12000, 0.0),
    ("u1", "buy", 13000, 7.0),
    ("u3", "login", 14000, 1.0),
    ("u3", "buy", 15000, 70.0),
    ("u2", "logout", 30000, 0.0),
    ("u2", "logout", 30000, 0.0),
]
event = Types.TUPLE([Types.STRING(), Types.STRING(), Types.LONG(), Types.DOUBLE()])


class When(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


class Deduplicate(KeyedProcessFunction):
    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("seen", Types.BOOLEAN())
        ttl = (
            StateTtlConfig.new_builder(Time.hours(1))
            .set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)
            .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
            .cleanup_full_snapshot()
            .build()
        )
        descriptor.enable_time_to_live(ttl)
        self.seen = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx):
        if not self.seen.value():
            self.seen.update(True)
            yield value


class TopTwo(KeyedProcessFunction):
    def open(self, runtime_context):
        self.items = runtime_context.get_list_state(ListStateDescriptor("items", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx):
        self.items.add(value)
        end = ctx.timestamp() - ctx.timestamp() % 10000 + 10000
        ctx.timer_service().register_event_time_timer(end - 1)

    def on_timer(self, timestamp, ctx):
        items = sorted((i for i in self.items if i[2] <= timestamp), key=lambda i: (-i[3], i[0]))
        self.items.update([i for i in self.items.get() if i[2] > timestamp])
        for rank, item in enumerate(items[:2], 1):
            yield Row(timestamp, rank, item[0], item[3])


class Sessions(KeyedProcessFunction):
    GAP = 5000

    def open(self, runtime_context):
        self.pages = runtime_context.get_list_state(ListStateDescriptor("pages", Types.STRING()))
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value, ctx):
        last = self.last.value()
        if last is not None:
            ctx.timer_service().delete_event_time_timer(last + self.GAP)
            if ctx.timestamp() - last > self.GAP:
                yield from self.end(ctx.get_current_key())
        self.pages.add(value[1])
        self.last.update(ctx.timestamp())
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + self.GAP)

    def end(self, user):
        yield user, "-".join(self.pages.get())
        self.pages.clear()
        self.last.clear()

    def on_timer(self, timestamp, ctx):
        yield from self.end(ctx.get_current_key())


invalid = OutputTag("invalid", Types.STRING())
audit = OutputTag("audit")
TRANSITIONS = {
    (None, "login"): "in",
    ("in", "view"): "in",
    ("in", "buy"): "in",
    ("in", "logout"): "out",
    ("out", "login"): "in",
}


class Machine(KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("state", Types.STRING()))
        self.history = runtime_context.get_map_state(MapStateDescriptor("history", Types.LONG(), Types.STRING()))

    def process_element(self, value, ctx):
        before = self.state.value()
        after = TRANSITIONS.get((before, value[1]))
        if after is None:
            yield invalid, "%s: %s after %s" % (value[0], value[1], before)
        else:
            self.state.update(after)
            self.history.put(value[2], after)
            yield value
        yield audit, (ctx.get_current_key(), after, len(list(self.history.keys())))


class Second(ProcessFunction):
    def process_element(self, value, ctx):
        if value[3] > 10:
            yield audit, ["large", value[3]]
            yield invalid, "large"
        yield value[0], value[3]


stream = env.from_collection(events, event).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(When())
)
distinct = stream.key_by(lambda e: e[:3]).process(Deduplicate(), event)
distinct.print("distinct")
stream.key_by(lambda e: "all", Types.STRING()).process(
    TopTwo(),
    Types.ROW_NAMED(["until", "rank", "user", "amount"], [Types.LONG(), Types.INT(), Types.STRING(), Types.DOUBLE()]),
).print("top")
stream.key_by(lambda e: e[0]).process(Sessions(), Types.TUPLE([Types.STRING(), Types.STRING()])).print("session")
machine = distinct.key_by(lambda e: e[0], Types.STRING()).process(Machine(), event)
second = machine.process(Second(), Types.TUPLE([Types.STRING(), Types.DOUBLE()]))
second.key_by(lambda v: v[0]).sum(1).print("sum")
machine.get_side_output(invalid).print("invalid")
machine.get_side_output(audit).print("audit")
second.get_side_output(audit).map(str).print("second audit")
second.get_side_output(invalid).union(machine.get_side_output(invalid)).map(lambda s: s.upper(), Types.STRING()).print(
    "both"
)
env.execute()
