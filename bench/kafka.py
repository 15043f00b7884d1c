"""kafka: a running count from topic to topic on a real broker, against a bare loop of the same client and PyFlink."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial

from bench.kafka_jobs import fill, run_count
from bench.keyed_count import PYFLINK_VARIABLE
from bench.peers import run_peer
from bench.report import Result, Row
from bench.timing import Timing, slope
from flintstream.datastream.connectors.base import DeliveryGuarantee
from flintstream.testing.jars import jars_of
from flintstream.testing.kafka import KafkaBroker
from flintstream.testing.servers import default_cache

LEAST_OF_BARE = 0.5
LEAST_OF_PYFLINK = 10
LEAST_EXACTLY_ONCE = 0.8
PYFLINK_CONNECTOR = ("org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",)


@dataclass(frozen=True)
class Sizes:
    """How many records each side reads: two sizes, and how often both are run."""

    records: tuple[int, int] = (500_000, 3_000_000)
    pyflink: tuple[int, int] | None = (50_000, 200_000)
    repeat: int = 3


QUICK = Sizes(records=(200_000, 1_000_000), pyflink=None, repeat=1)


def run(quick: bool) -> Result:
    """All sides in turn, on one broker."""
    sizes = QUICK if quick else Sizes()
    timings: dict[str, list[Timing]] = {}
    with KafkaBroker() as broker:
        servers = broker.bootstrap()
        for records in {*sizes.records, *(sizes.pyflink or ())}:
            fill(servers, broker.create_topic(2, topic_of(records)), records)
        ours = {
            name: partial(run_count, broker, guarantee=guarantee)
            for name, guarantee in (
                ("at least once", DeliveryGuarantee.AT_LEAST_ONCE),
                ("exactly once", DeliveryGuarantee.EXACTLY_ONCE),
            )
        }
        ours["at least once"](topic_of(sizes.records[0]), sizes.records[0])  # Starts Spark, and is not counted.
        for _ in range(sizes.repeat):
            for name, job in ours.items():
                timings.setdefault(name, []).extend(job(topic_of(size), size) for size in sizes.records)
            output = broker.create_topic(2)
            options = ("--servers", servers, "--output", output)
            timings.setdefault("bare", []).extend(run_peer("bare_kafka", sizes.records, 1, *options))
            broker.delete_topic(output)
        rates = {name: slope(runs) for name, runs in timings.items()}
        rows = [
            Row("Flintstream, at least once, a checkpoint a second", rates["at least once"]),
            Row(
                "bare loop: consume, count, produce; 2 processes",
                rates["bare"],
                ratio=rates["at least once"] / rates["bare"],
                least_ratio=LEAST_OF_BARE,
            ),
            Row(
                "Flintstream, exactly once, a checkpoint a second",
                rates["exactly once"],
                note=f"{rates['exactly once'] / rates['at least once']:.2f} of at least once; wanted {LEAST_EXACTLY_ONCE}",
            ),
            _against_pyflink(broker, sizes, rates["at least once"]),
        ]
    details = {side: [(timing.records, timing.seconds) for timing in runs] for side, runs in timings.items()}
    return Result("kafka", "Running count from Kafka to Kafka, 100-byte records, two partitions", rows, details)


def topic_of(records: int) -> str:
    """The topic with so many records."""
    return f"records-{records}"


def _against_pyflink(broker: KafkaBroker, sizes: Sizes, ours: float) -> Row:
    python = os.environ.get(PYFLINK_VARIABLE)
    if not python or not sizes.pyflink:
        return Row("PyFlink", None, note=f"not run: {PYFLINK_VARIABLE} is not set, or --quick")
    jars = sorted(jars_of("flink-kafka", PYFLINK_CONNECTOR, default_cache()).glob("flink-sql-connector-kafka*.jar"))
    output = broker.create_topic(2)
    options = ("--servers", broker.bootstrap(), "--output", output, "--jar", str(jars[0]))
    theirs = slope(run_peer("pyflink_kafka", sizes.pyflink, sizes.repeat, *options, python=python))
    return Row("PyFlink, process mode", theirs, ratio=ours / theirs, least_ratio=LEAST_OF_PYFLINK)
