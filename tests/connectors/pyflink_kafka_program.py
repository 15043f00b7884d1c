"""A PyFlink program: rows to Kafka and back, in each of PyFlink's formats. Arguments: the broker and its topics."""

import sys

from pyflink.common import ByteArraySchema, Row, Types, WatermarkStrategy
from pyflink.common.serialization import RowFieldExtractorSchema
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.datastream.formats.avro import AvroRowDeserializationSchema, AvroRowSerializationSchema
from pyflink.datastream.formats.csv import CsvRowDeserializationSchema, CsvRowSerializationSchema
from pyflink.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema

GREETING = Types.ROW([Types.INT(), Types.STRING()])
NAMED = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
AVRO = """
    {"type": "record", "name": "Greeting", "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}]}
"""


def sink_to(broker, topic, value, key=None):
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic).set_value_serialization_schema(value)
    if key is not None:
        schema.set_key_serialization_schema(key)
    return (
        KafkaSink.builder()
        .set_record_serializer(schema.build())
        .set_bootstrap_servers(broker)
        .set_property("group.id", "writers")
        .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        .build()
    )


def read(env, broker, topic, schema):
    source = (
        KafkaSource.builder()
        .set_topics(topic)
        .set_value_only_deserializer(schema)
        .set_properties({"bootstrap.servers": broker, "group.id": "readers"})
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_bounded(KafkaOffsetsInitializer.latest())
        .build()
    )
    return env.from_source(source, watermark_strategy=WatermarkStrategy.no_watermarks(), source_name=topic)


def main(broker, json_topic, csv_topic, avro_topic, bytes_topic):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.add_jars("file:///path/to/flink-sql-connector-kafka.jar")

    rows = env.from_collection([(1, "hi"), (2, "hello")], type_info=GREETING)
    named = env.from_collection([(1, "hi"), (2, "hello")], type_info=NAMED)
    pairs = env.from_collection([Row(b"1", b"hi"), Row(b"2", b"hello")], type_info=Types.ROW([BYTES, BYTES]))
    rows.sink_to(sink_to(broker, json_topic, JsonRowSerializationSchema.Builder().with_type_info(GREETING).build()))
    rows.sink_to(sink_to(broker, csv_topic, CsvRowSerializationSchema.Builder(GREETING).build()))
    named.sink_to(sink_to(broker, avro_topic, AvroRowSerializationSchema(avro_schema_string=AVRO)))
    pairs.sink_to(sink_to(broker, bytes_topic, RowFieldExtractorSchema(1), key=RowFieldExtractorSchema(0)))
    env.execute()

    formats = {
        json_topic: JsonRowDeserializationSchema.Builder().type_info(GREETING).build(),
        csv_topic: CsvRowDeserializationSchema.Builder(GREETING).build(),
        avro_topic: AvroRowDeserializationSchema(avro_schema_string=AVRO),
        bytes_topic: ByteArraySchema(),
    }
    for topic, schema in formats.items():
        read(env, broker, topic, schema).map(str, output_type=Types.STRING()).print(topic)
    env.execute()


if __name__ == "__main__":
    main(*sys.argv[1:])
