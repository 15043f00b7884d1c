# compare: sorted
# Word count over bounded input in BATCH mode: one line for each word, the final count.
from flintstream.common import Types
from flintstream.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
env.set_parallelism(1)


def split(line):
    yield from line.split()


words = env.from_collection(["a b a c", "b a", "c c c d"], Types.STRING()).flat_map(split, Types.STRING())
counts = (
    words.map(lambda w: (w, 1), Types.TUPLE([Types.STRING(), Types.INT()]))
    .key_by(lambda t: t[0], key_type=Types.STRING())
    .sum(1)
)

with counts.execute_and_collect() as results:
    for word, count in results:
        print(word, count)
