# compare: exact
# Calls that take too long: what timeout() gives instead; without timeout() the job fails.
import asyncio

from flintstream.common import Time, Types
from flintstream.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment


class Slow(AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.sleep(60 if value % 2 else 0.01)
        return ["answer %d" % value]


class SlowButPatient(Slow):
    def timeout(self, value):
        return ["no answer for %d" % value] * (value // 2)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([1, 2, 3, 4, 5], Types.INT())
answers = AsyncDataStream.ordered_wait(numbers, SlowButPatient(), Time.seconds(1), 10, Types.STRING())
print("ordered", list(answers.execute_and_collect()))
answers = AsyncDataStream.unordered_wait(numbers, SlowButPatient(), Time.seconds(1), 10, Types.STRING())
print("unordered", sorted(answers.execute_and_collect()))
answers = AsyncDataStream.ordered_wait(numbers, Slow(), Time.seconds(1), 1, Types.STRING())
try:
    print(list(answers.execute_and_collect()))
except Exception as error:
    print("failed:", "TimeoutError" in str(error), "timed out for" in str(error))
