# compare: exact
# BATCH mode, two keyed inputs: all records of a key from both, then those of the next key; each key's timer fires once.
from flintstream.common import Types
from flintstream.datastream import KeyedCoProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from flintstream.datastream.state import ValueStateDescriptor


class Number(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def number(self, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count == 1:
            ctx.timer_service().register_event_time_timer(1000)
        yield "%s record %d" % (ctx.get_current_key(), count)

    def process_element1(self, value, ctx):
        return self.number(ctx)

    def process_element2(self, value, ctx):
        return self.number(ctx)

    def on_timer(self, timestamp, ctx):
        yield "%s timer %d" % (ctx.get_current_key(), timestamp)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
env.set_parallelism(1)
pair = Types.TUPLE([Types.STRING(), Types.INT()])
left = env.from_collection([("b", 1), ("a", 2), ("b", 3), ("a", 4)], pair)
right = env.from_collection([("c", 5), ("b", 6), ("a", 7), ("b", 8)], pair)
lines = list(
    left.connect(right)
    .key_by(lambda t: t[0], lambda t: t[0], key_type=Types.STRING())
    .process(Number(), Types.STRING())
    .execute_and_collect()
)
keys = [line.split()[0] for line in lines if "record" in line]
print("runs of equal keys:", len([key for i, key in enumerate(keys) if i == 0 or keys[i - 1] != key]))
for line in sorted(lines):
    print(line)
