# compare: exact
# Fifty thousand records through several operators and two subtasks.
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
N = 50000
ds = (
    env.from_collection(list(range(N)), Types.LONG())
    .map(lambda n: (n % 7, n), Types.TUPLE([Types.LONG(), Types.LONG()]))
    .filter(lambda t: t[0] != 3)
    .key_by(lambda t: t[0], key_type=Types.LONG())
    .reduce(lambda a, b: (a[0], a[1] + b[1]))
)

count = 0
last = {}
for key, total in ds.execute_and_collect():
    count += 1
    last[key] = max(total, last.get(key, 0))
print(count)
for key in sorted(last):
    print(key, last[key], last[key] == sum(n for n in range(N) if n % 7 == key))
