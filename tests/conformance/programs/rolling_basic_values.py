# compare: exact
# Rolling aggregates on plain numbers and strings: position 0 is the value itself.
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)

numbers = env.from_collection([5, 3, 8, 2, 7, 1], Types.INT()).key_by(lambda n: n % 2, key_type=Types.INT())
print("sum", list(numbers.sum().execute_and_collect()))
print("max", list(numbers.max().execute_and_collect()))
words = env.from_collection(["pear", "fig", "plum", "date"]).key_by(lambda w: len(w))
print("min", list(words.min().execute_and_collect()))
print("sum", list(words.sum(0).execute_and_collect()))
try:
    list(numbers.sum(1).execute_and_collect())
except Exception:
    print("position 1 of a plain number is refused")
