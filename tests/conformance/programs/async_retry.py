# compare: exact
# Retries by result and by exception: how often the function is called, and what comes out when they are used up.
from functools import partial

from flintstream.common import Time, Types
from flintstream.datastream import AsyncDataStream, AsyncFunction, StreamExecutionEnvironment
from flintstream.datastream.async_retry_predicates import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from flintstream.datastream.async_retry_strategies import (
    NO_RETRY_STRATEGY,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
)


class Flaky(AsyncFunction):
    """Fails or gives nothing as often as the record says, then answers with the number of calls."""

    def open(self, runtime_context):
        self.calls = {}

    async def async_invoke(self, value):
        name, failures, empty = value
        self.calls[name] = self.calls.get(name, 0) + 1
        if self.calls[name] <= failures:
            raise KeyError("not yet")
        if self.calls[name] <= failures + empty:
            return []
        return ["%s after %d calls" % (name, self.calls[name])]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
record = Types.TUPLE([Types.STRING(), Types.INT(), Types.INT()])
some = env.from_collection([("good", 0, 0), ("fails", 2, 0), ("empty", 0, 2), ("mixed", 1, 1), ("never", 0, 9)], record)
worse = env.from_collection([("bad %d" % n, 9, 0) for n in range(4)], record)
fixed = FixedDelayRetryStrategy(3, 10, empty_result_predicate, has_exception_predicate)
growing = ExponentialBackoffDelayRetryStrategy(3, 10, 100, 2.0, empty_result_predicate, has_exception_predicate)
by_type = FixedDelayRetryStrategy(3, 10, None, partial(exception_type_predicate, expected_error_type=KeyError))
other_type = FixedDelayRetryStrategy(3, 10, None, partial(exception_type_predicate, expected_error_type=ValueError))


def attempt(label, stream):
    try:
        print(label, sorted(stream.execute_and_collect()))
    except Exception as error:
        print(label, "failed:", "not yet" in str(error))


def ordered(stream, strategy, capacity=1):
    return AsyncDataStream.ordered_wait_with_retry(
        stream, Flaky(), Time.seconds(20), strategy, capacity, Types.STRING()
    )


def unordered(stream, strategy, capacity=1):
    return AsyncDataStream.unordered_wait_with_retry(
        stream, Flaky(), Time.seconds(20), strategy, capacity, Types.STRING()
    )


print("in order", list(ordered(some, fixed, 10).execute_and_collect()))
attempt("growing", unordered(some, growing, 10))
attempt("by type", ordered(some, by_type))
attempt("other type", ordered(worse, other_type))
attempt("used up", unordered(worse, fixed))
attempt("no retry", ordered(worse, NO_RETRY_STRATEGY))
