# compare: sorted-no-prefix
# Taxi rides: cleansing, the hour's best tips, rides that last too long, rides joined with fares.
from flintstream.common import Duration, Row, Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import (
    AggregateFunction,
    CoFlatMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from flintstream.datastream.functions import ProcessAllWindowFunction
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.datastream.window import TumblingEventTimeWindows

HOUR = 3600000
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)


def ride_type():
    return Types.ROW_NAMED(
        ["ride_id", "is_start", "time", "lon", "lat", "driver"],
        [Types.LONG(), Types.BOOLEAN(), Types.LONG(), Types.FLOAT(), Types.FLOAT(), Types.LONG()],
    )


def fare_type():
    return Types.ROW_NAMED(
        ["ride_id", "driver", "time", "tip"], [Types.LONG(), Types.LONG(), Types.LONG(), Types.DOUBLE()]
    )


rides = []
for i in range(1, 13):
    start = i * 600000
    rides.append(Row(i, True, start, -73.9 + (i % 4) * 0.1, 40.7, 2000 + i % 3))
    if i != 7:
        rides.append(
            Row(i, False, start + (3 * HOUR if i % 5 == 0 else 900000), -73.9, 40.5 if i != 3 else 80.0, 2000 + i % 3)
        )
rides.sort(key=lambda r: (r[2] * 7919) % 10007)
fares = [Row(i, 2000 + i % 3, i * 600000 + 900000, float(i % 4) * 1.25) for i in range(1, 15)]


class RideTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value.time


class InCity(FilterFunction):
    def filter(self, value):
        return -75 < value.lon < -73 and 40 < value.lat < 42


class Cells(FlatMapFunction):
    def flat_map(self, ride):
        if ride["is_start"]:
            yield Row(int(ride.lon * 10), int(ride.lat * 10), ride.ride_id)


class LongRides(KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_state(ValueStateDescriptor("ride", ride_type()))

    def process_element(self, ride, ctx):
        first = self.state.value()
        if first is None:
            self.state.update(ride)
            if ride.is_start:
                ctx.timer_service().register_event_time_timer(ride.time + 2 * HOUR)
        else:
            if ride.is_start:
                if first.time - ride.time > 2 * HOUR:
                    yield ride.ride_id
            else:
                ctx.timer_service().delete_event_time_timer(first.time + 2 * HOUR)
                if ride.time - first.time > 2 * HOUR:
                    yield ride.ride_id
            self.state.clear()

    def on_timer(self, timestamp, ctx):
        yield self.state.value().ride_id
        self.state.clear()


class Tips(AggregateFunction):
    def create_accumulator(self):
        return 0.0

    def add(self, value, accumulator):
        return accumulator + value.tip

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


class Wrap(ProcessWindowFunction):
    def process(self, key, context, elements):
        (total,) = elements
        return [(context.window().end, key, total)]


class Best(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield max(elements, key=lambda e: (e[2], e[1]))


class Enrich(CoFlatMapFunction):
    def open(self, runtime_context):
        self.ride = runtime_context.get_state(ValueStateDescriptor("ride", ride_type()))
        self.fare = runtime_context.get_state(ValueStateDescriptor("fare", fare_type()))

    def flat_map1(self, ride):
        fare = self.fare.value()
        if fare is not None:
            self.fare.clear()
            yield ride.ride_id, ride.driver, fare.tip
        else:
            self.ride.update(ride)

    def flat_map2(self, fare):
        ride = self.ride.value()
        if ride is not None:
            self.ride.clear()
            yield ride.ride_id, ride.driver, fare.tip
        else:
            self.fare.update(fare)


missing_rides = OutputTag("no ride", fare_type())
missing_fares = OutputTag("no fare", ride_type())


class Match(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.ride = runtime_context.get_state(ValueStateDescriptor("ride", ride_type()))
        self.fare = runtime_context.get_state(ValueStateDescriptor("fare", fare_type()))

    def process_element1(self, ride, ctx):
        fare = self.fare.value()
        if fare:
            self.fare.clear()
            ctx.timer_service().delete_event_time_timer(fare.time + HOUR)
            yield Row(ride.ride_id, fare.tip)
        else:
            self.ride.update(ride)
            ctx.timer_service().register_event_time_timer(ride.time + HOUR)

    def process_element2(self, fare, ctx):
        ride = self.ride.value()
        if ride:
            self.ride.clear()
            ctx.timer_service().delete_event_time_timer(ride.time + HOUR)
            yield Row(ride.ride_id, fare.tip)
        else:
            self.fare.update(fare)
            ctx.timer_service().register_event_time_timer(fare.time + HOUR)

    def on_timer(self, timestamp, ctx):
        if self.fare.value():
            yield missing_rides, self.fare.value()
            self.fare.clear()
        if self.ride.value():
            yield missing_fares, self.ride.value()
            self.ride.clear()


strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_hours(5)).with_timestamp_assigner(RideTime())
ride_stream = env.from_collection(rides, ride_type()).assign_timestamps_and_watermarks(strategy)
fare_stream = env.from_collection(fares, fare_type()).assign_timestamps_and_watermarks(strategy)
clean = ride_stream.filter(InCity())
clean.print("clean")
clean.flat_map(Cells(), Types.ROW([Types.INT(), Types.INT(), Types.LONG()])).print("cell")
ride_stream.key_by(lambda r: r.ride_id, Types.LONG()).process(LongRides(), Types.LONG()).print("long")
tips = (
    fare_stream.key_by(lambda f: f.driver, Types.LONG())
    .window(TumblingEventTimeWindows.of(Time.hours(1)))
    .aggregate(Tips(), Wrap(), output_type=Types.TUPLE([Types.LONG(), Types.LONG(), Types.DOUBLE()]))
)
tips.print("tips")
tips.window_all(TumblingEventTimeWindows.of(Time.hours(1))).process(
    Best(), Types.TUPLE([Types.LONG(), Types.LONG(), Types.DOUBLE()])
).print("best")
starts = ride_stream.filter(lambda r: r.is_start)
starts.connect(fare_stream).key_by(lambda r: r.ride_id, lambda f: f.ride_id, Types.LONG()).flat_map(
    Enrich(), Types.TUPLE([Types.LONG(), Types.LONG(), Types.DOUBLE()])
).print("enriched")
matched = (
    starts.filter(lambda r: r.ride_id != 4)
    .key_by(lambda r: r.ride_id, Types.LONG())
    .connect(fare_stream.key_by(lambda f: f.ride_id, Types.LONG()))
    .process(Match(), Types.ROW([Types.LONG(), Types.DOUBLE()]))
)
matched.print("matched")
matched.get_side_output(missing_rides).print("no_ride")
matched.get_side_output(missing_fares).map(lambda r: r.ride_id, Types.LONG()).print("no_fare")
env.execute("taxi")
