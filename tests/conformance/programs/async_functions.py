# compare: exact
# AsyncDataStream: order, several results and none, time-outs, retries, chaining, the names in the plan.
import asyncio
import json

from flintstream.common import Time, Types
from flintstream.datastream import AsyncDataStream, AsyncFunction, AsyncRetryStrategy, StreamExecutionEnvironment


class Repeat(AsyncFunction):
    """The smaller a number, the more results and the longer it takes."""

    async def async_invoke(self, value):
        await asyncio.sleep(0.02 * (3 - value))
        return [value] * (3 - value)


class Slow(AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.sleep(60 if value == 2 else 0)
        return [value]

    def timeout(self, value):
        return [-value, -value]


class Counting(AsyncFunction):
    """Answers with the number of the attempt; some records fail at first."""

    def open(self, runtime_context):
        self.attempts = {}
        self.subtask = runtime_context.get_index_of_this_subtask()

    async def async_invoke(self, value):
        attempt = self.attempts[value] = self.attempts.get(value, 0) + 1
        if value.startswith("fails") and attempt < 3:
            raise ConnectionError(value)
        return ["%s in subtask %d at attempt %d" % (value, self.subtask, attempt)]


class Kinds(AsyncFunction):
    async def async_invoke(self, value):
        return {"list": [1], "none": [], "tuple": (2, 3), "range": range(4, 6), "string": "ab"}[value]


def collect(stream):
    with stream.execute_and_collect() as results:
        return list(results)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([0, 1, 2, 3], Types.INT())

ordered = AsyncDataStream.ordered_wait(numbers, Repeat(), Time.seconds(10), 10, Types.INT())
print("name:", ordered.get_name())
print("ordered:", collect(ordered))

one = AsyncDataStream.unordered_wait(numbers, Repeat(), Time.seconds(10), 1, Types.INT())
print("unordered with room for one:", collect(one))

unordered = AsyncDataStream.unordered_wait(numbers, Repeat(), Time.seconds(10), 10, Types.INT())
print("unordered:", sorted(collect(unordered)))

slow = AsyncDataStream.ordered_wait(numbers, Slow(), Time.milliseconds(500), 10, Types.INT())
print("time-outs:", collect(slow))

no_limit = AsyncDataStream.ordered_wait(numbers, Repeat(), Time.seconds(0), 10, Types.INT())
print("any time:", collect(no_limit))

words = env.from_collection(["fine", "fails", "fails too"], Types.STRING())
on_error = AsyncRetryStrategy.fixed_delay(5, 10, None, lambda error: isinstance(error, ConnectionError))
retried = AsyncDataStream.ordered_wait_with_retry(words, Counting(), Time.seconds(30), on_error, 10, Types.STRING())
print("retries after errors:", collect(retried))

on_result = AsyncRetryStrategy.exponential_backoff(3, 10, 40, 2.0, lambda results: True, None)
tired = AsyncDataStream.unordered_wait_with_retry(
    env.from_collection(["never good"], Types.STRING()), Counting(), Time.seconds(30), on_result, 10, Types.STRING()
)
print("retries to the end:", collect(tired))

kinds = env.from_collection(["list", "none", "tuple", "range", "string"], Types.STRING())
print("collections:", collect(AsyncDataStream.ordered_wait(kinds, Kinds(), Time.seconds(10))))

chained = AsyncDataStream.ordered_wait(numbers.map(lambda n: 3 - n, Types.INT()), Repeat(), Time.seconds(10), 10)
print("chained:", collect(chained.map(lambda n: n * 10, Types.INT())))

plan = StreamExecutionEnvironment.get_execution_environment()
plan.set_parallelism(1)
source = plan.from_collection([1], Types.INT())
AsyncDataStream.unordered_wait(source, Repeat(), Time.seconds(1), 10, Types.INT()).print()
print("plan:", [node["type"] for node in json.loads(plan.get_execution_plan())["nodes"]])
