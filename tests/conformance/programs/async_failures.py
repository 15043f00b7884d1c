# compare: exact
# What fails: an exception in the call, a result that is None or no list, an invoke that is not asynchronous, wrong arguments.
from flintstream.common import Time, Types
from flintstream.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment
from flintstream.datastream.async_retry_strategies import (
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
)


class Invoke(AsyncFunction):
    def __init__(self, function):
        self.function = function

    async def async_invoke(self, value):
        return self.function(value)


class NotAsync(AsyncFunction):
    def async_invoke(self, value):
        return [value]


def fails(value):
    raise ValueError("no %d" % value)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([7, 7, 7, 7], Types.INT())
for label, function, text in [
    ("raises", fails, "no 7"),
    ("none", lambda value: None, "async_invoke"),
    ("number", lambda value: value, "async_invoke"),
]:
    try:
        print(list(AsyncDataStream.ordered_wait(numbers, Invoke(function), Time.seconds(20), 1).execute_and_collect()))
    except Exception as error:
        print(label, "failed:", text in str(error))
try:
    AsyncDataStream.ordered_wait(numbers, NotAsync(), Time.seconds(20))
except Exception as error:
    print("not async:", "async def" in str(error))
for name, make in [
    ("max_attempts", lambda: FixedDelayRetryStrategy(0, 10, None, None)),
    ("backoff_time_millis", lambda: FixedDelayRetryStrategy(1, 0, None, None)),
    ("multiplier", lambda: ExponentialBackoffDelayRetryStrategy(1, 10, 10, 0, None, None)),
]:
    try:
        make()
    except Exception as error:
        print(name, "refused:", name in str(error))
fixed = FixedDelayRetryStrategy(2, 30, None, None)
print([fixed.can_retry(n) for n in (1, 2, 3)], [fixed.get_backoff_time_millis(n) for n in (1, 2, 3)])
growing = ExponentialBackoffDelayRetryStrategy(3, 10, 50, 2.0, None, None)
print([growing.can_retry(n) for n in (1, 3, 4)], [growing.get_backoff_time_millis(n) for n in (1, 2, 3, 4)])
