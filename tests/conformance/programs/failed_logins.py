# compare: sorted
# Three failed log-ins in a row within a minute raise an alarm; a success or a pause starts anew.
from flintstream.common import Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ListStateDescriptor


class Time(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[2]


class ThreeFailures(KeyedProcessFunction):
    def open(self, runtime_context):
        self.failures = runtime_context.get_list_state(ListStateDescriptor("failures", Types.LONG()))

    def process_element(self, value, ctx):
        user, success, time = value
        if success:
            self.failures.clear()
            return
        recent = [t for t in self.failures.get() if t > time - 60000] + [time]
        if len(recent) == 3:
            yield "%s failed at %s" % (user, recent)
            recent = []
        self.failures.update(recent)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
data = [
    ("ann", False, 1000),
    ("bob", False, 2000),
    ("ann", False, 3000),
    ("bob", False, 4000),
    ("bob", True, 5000),
    ("ann", False, 6000),
    ("bob", False, 7000),
    ("ann", False, 8000),
    ("cid", False, 10000),
    ("cid", False, 71000),
    ("cid", False, 72000),
    ("ann", False, 73000),
    ("cid", False, 130999),
    ("ann", False, 80000),
]
env.from_collection(
    data, Types.TUPLE([Types.STRING(), Types.BOOLEAN(), Types.LONG()])
).assign_timestamps_and_watermarks(
    WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Time())
).key_by(lambda t: t[0], key_type=Types.STRING()).process(ThreeFailures(), Types.STRING()).print()
env.execute()
