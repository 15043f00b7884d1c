"""The limit from Kafka to Kafka: consume, count in a dict, produce; a process for each partition."""

from __future__ import annotations

import multiprocessing
import time
from functools import partial
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.peers import arguments, report
from bench.timing import Timing

PARTITIONS = 2


def count(servers: str, topic: str, partition: int, records: int, output: str) -> None:
    """The running count of one partition."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bare", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0)])
    producer = Producer({"bootstrap.servers": servers, "queue.buffering.max.messages": 500_000, "linger.ms": 5})
    counts: dict[bytes, int] = {}
    read = 0
    while read < records:
        messages = consumer.consume(10_000, 1.0)
        for message in messages:
            key = message.value()[:5]
            number = counts.get(key, 0) + 1
            counts[key] = number
            while True:
                try:
                    producer.produce(output, b"%b,%d" % (key, number))
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)
        read += len(messages)
    producer.flush()
    consumer.close()


def run(servers: str, output: str, records: int) -> Timing:
    """Both partitions at once."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(PARTITIONS)
    spans: Any = context.SimpleQueue()
    workers = [
        context.Process(target=part, args=(barrier, spans, servers, index, records, output))
        for index in range(PARTITIONS)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        if worker.exitcode:
            raise RuntimeError(f"a process of the bare loop failed ({worker.exitcode})")
    times = [spans.get() for _ in workers]
    return Timing(records, max(ended for _, ended in times) - min(started for started, _ in times))


def part(barrier: Any, spans: Any, servers: str, index: int, records: int, output: str) -> None:
    """What one process does."""
    barrier.wait()
    started = time.monotonic()
    count(servers, f"records-{records}", index, records // PARTITIONS, output)
    spans.put((started, time.monotonic()))


if __name__ == "__main__":
    given = arguments(servers=None, output=None)
    report(partial(run, given.servers, given.output), given)
