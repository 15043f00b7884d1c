# compare: exact
# An exception in a user's function ends the job; execute and collect raise.
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.functions import MapFunction

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)


def divide(value):
    return 10 // value


class Broken(MapFunction):
    def open(self, runtime_context):
        raise RuntimeError("cannot open")

    def map(self, value):
        return value


numbers = env.from_collection([5, 0, 2], Types.INT())
numbers.map(divide, Types.INT()).filter(lambda v: False).print()
try:
    env.execute("fails")
    print("not reached")
except Exception as error:
    print("job failed", "ZeroDivisionError" in str(error))

try:
    list(numbers.map(Broken(), Types.INT()).execute_and_collect())
    print("not reached")
except Exception as error:
    print("open failed", "cannot open" in str(error))

numbers.map(lambda v: v + 1, Types.INT()).print()
env.execute("works again")
