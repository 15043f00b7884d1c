# compare: exact
# Asynchronous calls in the order of completion; with a capacity of one that is the order of the input.
import asyncio

from flintstream.common import Time, Types
from flintstream.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment


class Wait(AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.sleep(value * 0.5)
        return [value, value * 10]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([3, 1, 2], Types.INT())
print(list(AsyncDataStream.unordered_wait(numbers, Wait(), Time.seconds(20), 10, Types.INT()).execute_and_collect()))
print(list(AsyncDataStream.unordered_wait(numbers, Wait(), Time.seconds(20), 1, Types.INT()).execute_and_collect()))
