"""A job from Kafka to Kafka that is hurt on the way, or whose broker is: readers of committed records see each result once.

As in `test_hurts.py`, a few hurts are always tried, and `make faults` tries others, which follow from a seed.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from tests.connectors.conftest import kafka  # noqa: F401 - a fixture
from tests.connectors.kafka import KafkaServer
from tests.connectors.topics import Topic
from tests.faults import hurt_program, hurts
from tests.faults.hurts import MOMENT, Hurt
from tests.faults.test_hurts import FIRST_SEED, ROUNDS, Case, check, run

pytestmark = pytest.mark.timeout(900)
BROKER_AWAY_SECONDS = 3.0
BROKER_STOPPED_SECONDS = 20.0
POINTS = ["snapshot", "metadata", "notifying", "notification", "kafka commit"]
LATEST = {"snapshot": 20, "metadata": 5, "notifying": 10, "notification": 20, "kafka commit": 4}


def case_of(seed: int) -> Case:
    """What follows from a seed: a hurt of the job or of the broker, at a point of the protocol or at any time."""
    chance = random.Random(seed)
    action = chance.choice(
        [
            "kill -9 of the broker",
            "SIGSTOP of the broker",
            "kill -9",
            "exception",
            "kill -9 of a slot",
            "kill -9 of a slot",
        ]
    )
    if action == "kill -9 of a slot" or (action.endswith("the broker") and chance.random() < 0.5):
        planned = (Hurt(MOMENT, chance.randrange(200, 3500), action),)
    else:
        point = chance.choice(POINTS)
        planned = (Hurt(f"{chance.choice(['before', 'after'])} {point}", chance.randint(1, LATEST[point]), action),)
    return Case(planned, "kafka", parallelism=chance.choice([1, 2, 3]), seed=seed)


@contextmanager
def watched(server: KafkaServer, topics: hurt_program.Topics, directory: Path) -> Iterator[None]:
    """Starts the broker again when it was killed, and lets it go on when it was stopped."""
    over = threading.Event()
    failures: list[BaseException] = []

    def watch() -> None:
        while not over.wait(0.1):
            process = psutil.Process(server.pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                time.sleep(BROKER_AWAY_SECONDS)
                server.restart()
                hurt_program.Topics(topics.servers, server.pid, topics.events, topics.counts).write(directory)
            elif process.status() == psutil.STATUS_STOPPED:
                time.sleep(BROKER_STOPPED_SECONDS)
                process.send_signal(signal.SIGCONT)

    def guarded() -> None:
        try:
            watch()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=guarded, name="watches the broker")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert failures == []


def hurt(server: KafkaServer, case: Case, directory: Path) -> list[int]:
    """Runs the job, and compares what readers of committed records see; gives the numbers of the hurts that happened."""
    counts = Topic(server, 2)
    topics = hurt_program.Topics(server.bootstrap(), server.pid, server.create_topic(partitions=2), counts.name)
    producer = Producer({"bootstrap.servers": server.bootstrap(), "log_level": 0})
    for event in range(hurt_program.EVENTS):
        # From 1 on: a timestamp of 0 means that the client takes its clock's.
        producer.produce(topics.events, str(event), partition=event % 2, timestamp=event + 1)
    assert producer.flush(60) == 0
    topics.write(directory)
    with watched(server, topics, directory):
        ended = run(case, directory)
        assert ended["status"] == "FINISHED", ended
    (directory / "topic").mkdir()
    (directory / "topic" / "seen").write_text("".join(f"{value}\n" for value in counts.values()))
    check(case, directory, ended)
    return hurts.happened(directory)


ALWAYS = [
    Case((Hurt("after metadata", 2, "kill -9 of a slot"),), "kafka"),
    Case((Hurt("before kafka commit", 2, "kill -9"),), "kafka"),
    Case((Hurt("before kafka commit", 2, "kill -9 of the broker"),), "kafka"),
]


@pytest.mark.parametrize("case", ALWAYS, ids=str)
def test_readers_see_each_result_once(spark, kafka: KafkaServer, tmp_path: Path, case: Case) -> None:  # noqa: F811
    assert hurt(kafka, case, tmp_path) == list(range(len(case.hurts)))


if ROUNDS:

    @pytest.mark.parametrize("case", [case_of(FIRST_SEED + number) for number in range(-(-ROUNDS // 4))], ids=str)
    def test_random_hurts(spark, kafka: KafkaServer, tmp_path: Path, case: Case) -> None:
        print(case)
        print("hurts that have happened:", hurt(kafka, case, tmp_path))
