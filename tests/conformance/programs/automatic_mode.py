# compare: sorted
# AUTOMATIC mode with bounded input only behaves as BATCH mode does.
from flintstream.common import Types, WatermarkStrategy
from flintstream.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from flintstream.datastream.connectors.number_seq import NumberSequenceSource

env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
env.set_parallelism(1)
numbers = env.from_source(NumberSequenceSource(1, 100), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
sums = (
    numbers.map(lambda n: (n % 3, n), Types.TUPLE([Types.LONG(), Types.LONG()]))
    .key_by(lambda t: t[0], key_type=Types.LONG())
    .reduce(lambda a, b: (a[0], a[1] + b[1]))
)
sums.print()
env.execute()
