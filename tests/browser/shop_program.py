"""Orders of a shop, without end: scored one by one, which is slow, and summed up in windows. What the page is shown with.

python shop_program.py ORDERS_PER_SECOND SECONDS_PER_SCORE DIRECTORY
"""

import sys
import time

from flintstream.common import Duration, Types, WatermarkStrategy
from flintstream.common.serialization import Encoder
from flintstream.common.time import Time
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import (
    KeyedProcessFunction,
    OutputTag,
    ProcessWindowFunction,
    StreamExecutionEnvironment,
)
from flintstream.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from flintstream.datastream.connectors.file_system import FileSink
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.datastream.window import TumblingEventTimeWindows

SHOPS = ("Berlin", "Oslo", "Porto", "Turin", "Vienna")
ORDER = Types.TUPLE([Types.INT(), Types.STRING(), Types.FLOAT(), Types.LONG()])  # visitor, shop, price, time
SUSPICIOUS = OutputTag("suspicious", Types.STRING())


def order(index):
    shop = SHOPS[index * 7919 % 13 % 5]
    return index * 31 % 4099, shop, 5.0 + index % 97, time.time_ns() // 1_000_000


class TimeOfOrder(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[3]


class FraudScore(KeyedProcessFunction):
    def __init__(self, seconds):
        self.seconds = seconds

    def open(self, runtime_context):
        self.spent = runtime_context.get_state(ValueStateDescriptor("spent", Types.FLOAT()))
        self.orders = runtime_context.get_metrics_group().add_group("shop").counter("orders")

    def process_element(self, value, ctx):
        until = time.perf_counter() + self.seconds
        spent = (self.spent.value() or 0.0) + value[2]
        self.spent.update(spent)
        self.orders.inc()
        while time.perf_counter() < until:
            pass
        if int(spent) % 1009 == 0:
            yield SUSPICIOUS, f"visitor {value[0]} has spent {spent:.2f}"
        yield value


class Revenue(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield f"{key},{context.window().start},{sum(each[2] for each in elements):.2f}"


def main(rate, seconds, directory):
    env = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(order, None, RateLimiterStrategy.per_second(rate), ORDER)
    times = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1)).with_timestamp_assigner(
        TimeOfOrder()
    )
    orders = env.from_source(source, times, "orders").filter(lambda each: each[2] > 6).name("valid")
    scored = orders.key_by(lambda each: each[0], Types.INT()).process(FraudScore(seconds), ORDER).name("fraud score")
    scored.get_side_output(SUSPICIOUS).print("suspicious").set_parallelism(1).name("alerts")
    (
        scored.key_by(lambda each: each[1], Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.seconds(2)))
        .process(Revenue(), Types.STRING())
        .name("revenue")
        .sink_to(FileSink.for_row_format(directory, Encoder.simple_string_encoder()).build())
        .set_parallelism(1)
        .name("ledger")
    )
    env.execute("revenue by shop")


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3])
