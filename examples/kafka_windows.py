"""Kafka to Kafka: what each product has earned in windows of ten seconds, each result exactly once.

Orders are JSON in the topic `orders`, with the time of the order in them. Each partition has a watermark of its own; a
window ends when all partitions have passed it. The results go to the topic `earnings` in transactions, which are committed
with each checkpoint: a reader of committed records sees each result once, whatever fails on the way.

Without the address of a broker, one is started for the demonstration (Kafka is downloaded once):

    flint demo kafka
    flint demo kafka localhost:9092
"""

import json
import sys
import uuid
from contextlib import ExitStack

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from flintstream.common import Duration, SimpleStringSchema, Time, Types, WatermarkStrategy
from flintstream.common.watermark_strategy import TimestampAssigner
from flintstream.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.base import DeliveryGuarantee
from flintstream.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from flintstream.datastream.window import TumblingEventTimeWindows
from flintstream.testing.kafka import KafkaBroker

PRODUCTS = {"book": 12, "cup": 7, "lamp": 30}
SECONDS = 40
PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


class OrderTime(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return json.loads(value)["time"]


class Earned(ProcessWindowFunction):
    def process(self, product, context, orders):
        start = context.window().start // 1000
        earned = sum(price for _, price in orders)
        yield json.dumps({"from": start, "to": start + 10, "product": product, "earned": earned})


def earnings(env, servers, orders, results):
    """The job: from the topic `orders` to the topic `results`."""
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(servers)
        .set_topics(orders)
        .set_group_id("earnings")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())  # So that the demonstration ends; leave it out, and it runs on.
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(servers)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(f"earnings-{results}")
        .set_record_serializer(
            KafkaRecordSerializationSchema.builder()
            .set_topic(results)
            .set_value_serialization_schema(SimpleStringSchema())
            .build()
        )
        .set_property("transaction.timeout.ms", "900000")  # As long as a broker allows unless it is told otherwise.
        .build()
    )
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2))
    (
        env.from_source(source, strategy.with_timestamp_assigner(OrderTime()), "orders")
        .map(json.loads)
        .map(lambda order: (order["product"], order["price"]), PAIR)
        .key_by(lambda pair: pair[0], Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .process(Earned(), Types.STRING())
        .sink_to(sink)
        .name("earnings")
    )


def write_orders(servers, topic):
    """Two partitions with an order of each product a second, a little out of order."""
    producer = Producer({"bootstrap.servers": servers})
    for second in range(SECONDS):
        for number, (product, price) in enumerate(PRODUCTS.items()):
            time = (second - (second % 3 == 2)) * 1000 + number
            order = json.dumps({"product": product, "price": price, "time": time})
            producer.produce(topic, order, partition=number % 2)
    if producer.flush(60):
        raise TimeoutError(f"{servers} has not taken the orders within 60 s")


def committed(servers, topic):
    """What a reader of committed records sees."""
    reader = Consumer({"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"})
    reader.subscribe([topic])
    lines = []
    while len(lines) < len(PRODUCTS) * SECONDS // 10:
        message = reader.poll(60)
        if message is None:
            raise TimeoutError(f"nothing more in {topic} within 60 s")
        if message.error() is None:
            lines.append(json.loads(message.value()))
    reader.close()
    return lines


def main(servers):
    run = uuid.uuid4().hex[:6]
    orders, results = f"orders-{run}", f"earnings-{run}"
    admin = AdminClient({"bootstrap.servers": servers})
    for created in admin.create_topics([NewTopic(orders, 2), NewTopic(results, 2)]).values():
        created.result(60)
    write_orders(servers, orders)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.enable_checkpointing(1000)
    earnings(env, servers, orders, results)
    env.execute("earnings")
    print(f"committed in the topic {results}:")
    for line in sorted(committed(servers, results), key=lambda line: (line["from"], line["product"])):
        print(f"{line['from']:3} to {line['to']:3} s  {line['product']:5} {line['earned']:4}")


if __name__ == "__main__":
    with ExitStack() as stack:
        if len(sys.argv) > 1:
            main(sys.argv[1])
        else:
            print("starting a Kafka broker (the first time it is downloaded, 44 MB)", flush=True)
            main(stack.enter_context(KafkaBroker()).bootstrap())
