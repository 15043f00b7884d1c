# compare: exact
# Time to live of a value: counted from the last write, or from the last read too. Caches are off, so that PyFlink looks at the time.
import time

from flintstream.common import Configuration, Time, Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ReducingStateDescriptor, StateTtlConfig, ValueStateDescriptor


class Expire(KeyedProcessFunction):
    def __init__(self, update_type):
        self.update_type = update_type

    def open(self, runtime_context):
        ttl = (
            StateTtlConfig.new_builder(Time.milliseconds(1500))
            .set_update_type(self.update_type)
            .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
            .build()
        )
        value = ValueStateDescriptor("value", Types.STRING())
        value.enable_time_to_live(ttl)
        self.value = runtime_context.get_state(value)
        total = ReducingStateDescriptor("total", lambda a, b: a + b, Types.STRING())
        total.enable_time_to_live(ttl)
        self.total = runtime_context.get_reducing_state(total)
        self.forever = runtime_context.get_state(ValueStateDescriptor("forever", Types.STRING()))

    def process_element(self, value, ctx):
        wait, letter = value
        time.sleep(wait)
        if letter:
            self.value.update(letter)
            self.total.add(letter)
            self.forever.update(letter)
        yield "%s %s %s" % (self.value.value(), self.total.get(), self.forever.value())


config = Configuration()
config.set_integer("python.fn-execution.bundle.size", 1)
config.set_integer("python.state.cache-size", 0)
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(1)
steps = [(0.0, "a"), (1.0, "b"), (1.0, ""), (1.0, ""), (0.0, "c"), (1.0, ""), (2.0, "")]
for update_type in (StateTtlConfig.UpdateType.OnCreateAndWrite, StateTtlConfig.UpdateType.OnReadAndWrite):
    print(update_type.name)
    for line in (
        env.from_collection(steps, Types.TUPLE([Types.DOUBLE(), Types.STRING()]))
        .key_by(lambda s: 0, key_type=Types.INT())
        .process(Expire(update_type), Types.STRING())
        .execute_and_collect()
    ):
        print(" ", line)
