# compare: exact
# With an hour to live nothing changes, whatever the update type, the visibility and the clean-up.
from flintstream.common import Time, Types
from flintstream.datastream import AggregateFunction, KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


class All(KeyedProcessFunction):
    def __init__(self, ttl):
        self.ttl = ttl

    def living(self, descriptor):
        descriptor.enable_time_to_live(self.ttl)
        return descriptor

    def open(self, context):
        self.value = context.get_state(self.living(ValueStateDescriptor("value", Types.INT())))
        self.list = context.get_list_state(self.living(ListStateDescriptor("list", Types.INT())))
        self.map = context.get_map_state(self.living(MapStateDescriptor("map", Types.INT(), Types.INT())))
        self.sum = context.get_reducing_state(
            self.living(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.INT()))
        )
        self.count = context.get_aggregating_state(
            self.living(AggregatingStateDescriptor("count", Count(), Types.INT()))
        )

    def process_element(self, value, ctx):
        before = self.value.value()
        self.value.update(value)
        self.list.add(value)
        self.map.put(value, -value)
        self.sum.add(value)
        self.count.add(value)
        yield "%s %s %s %s %s" % (
            before,
            list(self.list.get()),
            sorted(self.map.items()),
            self.sum.get(),
            self.count.get(),
        )


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
configs = [
    StateTtlConfig.new_builder(Time.hours(1)).build(),
    StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_read_and_write().return_expired_if_not_cleaned_up().build(),
    StateTtlConfig.new_builder(Time.hours(1)).cleanup_full_snapshot().cleanup_incrementally(10, True).build(),
    StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_create_and_write().disable_cleanup_in_background().build(),
]
for ttl in configs:
    print(ttl.get_update_type().name, ttl.get_state_visibility().name, ttl.get_ttl().to_milliseconds())
    for line in (
        env.from_collection([1, 2, 3, 4], Types.INT())
        .key_by(lambda n: n % 2, key_type=Types.INT())
        .process(All(ttl), Types.STRING())
        .execute_and_collect()
    ):
        print(" ", line)
