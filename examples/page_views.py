"""Page views by the hour, over records that come out of order: tumbling event-time windows in two steps.

The first step counts in parallel: views of an hour are spread over some keys. Of a view, only its key is sent there. The
results carry the time of their window, so they fall into the same hour again, where the second step adds them up. A view
that comes when its hour is over goes to a side output and is counted there.

    flint demo page_views
"""

from _user_behaviour import HOUR, clock, shop_day, views_of
from flintstream.common import Time, Types
from flintstream.datastream import OutputTag, StreamExecutionEnvironment
from flintstream.datastream.functions import AggregateFunction, FilterFunction, ProcessAllWindowFunction
from flintstream.datastream.window import TumblingEventTimeWindows

RECORDS = 50_000
LATE = OutputTag("late")
BY_THE_HOUR = TumblingEventTimeWindows.of(Time.hours(1))
COUNT = Types.TUPLE([Types.LONG(), Types.LONG()])


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


class WithHour(ProcessAllWindowFunction):
    """Behind reduce() it gets one element only: the sum."""

    def process(self, context, elements):
        yield context.window().start, *elements


def page_views(behaviour):
    """Streams of (hour, views), and of the views that came too late for theirs."""
    counts = (
        views_of(behaviour)
        .map(lambda view: view.visitor % 8, Types.INT())
        .set_parallelism(1)
        .key_by(lambda share: share, Types.INT())
        .window(BY_THE_HOUR)
        .side_output_late_data(LATE)
        .aggregate(Count(), output_type=Types.LONG())
    )
    views = counts.window_all(BY_THE_HOUR).reduce(lambda left, right: left + right, WithHour(), COUNT)
    return views, counts.get_side_output(LATE)


class CountLate(FilterFunction):
    """Only counts: an accumulator is summed up over all subtasks, and comes with the job's result."""

    def open(self, runtime_context):
        self.late = runtime_context.get_long_counter("late")

    def filter(self, view):
        self.late.add(1)
        return False


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    views, late = page_views(shop_day(env, RECORDS))
    lines = views.map(lambda hour: f"{clock(hour[0])} - {clock(hour[0] + HOUR)} {hour[1]:6,} views", Types.STRING())
    lines.set_parallelism(1).print().set_parallelism(1)  # One subtask keeps the hours in their order.
    late.filter(CountLate()).print("never printed")
    result = env.execute("page views")
    print(f"{result.get_accumulator_result('late')} views came too late for their hour")


if __name__ == "__main__":
    main()
