# compare: sorted-no-prefix
# A number sequence read by two subtasks.
from flintstream.common import Types, WatermarkStrategy
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.number_seq import NumberSequenceSource

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
numbers = env.from_source(
    NumberSequenceSource(1, 20), WatermarkStrategy.no_watermarks(), "numbers", type_info=Types.LONG()
)
numbers.map(lambda n: n * n, output_type=Types.LONG()).filter(lambda n: n % 2 == 1).print()
env.execute("squares")
