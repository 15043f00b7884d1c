"""Spark at both ends: a DataFrame goes in, a Spark writer takes what comes out.

    flint run examples/spark_dataframes.py OUTPUT

Everything that Spark reads is a source, everything that it writes to is a sink.
"""

import sys

from pyspark.sql import SparkSession

from flintstream.common import Row, Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.connectors.spark import SparkSink
from flintstream.datastream.state import ValueStateDescriptor

ALERT = Types.ROW_NAMED(["card", "amount"], [Types.INT(), Types.DOUBLE()])


class SmallThenLarge(KeyedProcessFunction):
    """Tells of a large payment right behind a tiny one on the same card: someone may be trying it out."""

    def open(self, runtime_context):
        self.was_small = runtime_context.get_state(ValueStateDescriptor("was small", Types.BOOLEAN()))

    def process_element(self, payment, ctx):
        if self.was_small.value() and payment.amount > 500:
            yield Row(card=payment.card, amount=payment.amount)
        self.was_small.update(payment.amount < 1)


def main(output_path):
    # A session of the program's own is used for the job as well. Here only to show that SQL and streams mix.
    spark = SparkSession.builder.getOrCreate()
    payments = spark.sql(
        "SELECT CAST(id % 50 AS INT) AS card, IF(id % 7 = 0, 0.5D, CAST(id % 1009 AS DOUBLE)) AS amount "
        "FROM range(0, 20000, 1, 2)"
    )

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    alerts = env.from_spark(payments).key_by(lambda row: row.card, Types.INT()).process(SmallThenLarge(), ALERT)
    # Called on the driver: without checkpoints, after each epoch that had records.
    alerts.sink_to(SparkSink(lambda frame, epoch: frame.write.mode("append").parquet(output_path)))
    env.execute("card alerts")

    written = spark.read.parquet(output_path)
    print(f"{written.count()} alerts for {written.select('card').distinct().count()} cards")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: spark_dataframes.py OUTPUT")
    main(sys.argv[1])
