"""What goes between slots and Spark tasks over TCP is encrypted by one setting."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.forwarder import Forwarder

from flintstream.common import Configuration, Types
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.runtime.slot.handshake import SlotAccess
from flintstream.spark import slots
from flintstream.spark.slots import SlotPool

MARK = "nobody should read this"


@pytest.fixture
def forwarders(monkeypatch: pytest.MonkeyPatch):
    """Makes a local job speak TCP, as on a cluster; and one stand between its tasks and each of its slots."""
    monkeypatch.setattr(slots, "_LONGEST_DIRECTORY", 0)
    found: dict[tuple[str, int], Forwarder] = {}

    access = SlotPool.access.fget

    def through_forwarders(pool: SlotPool) -> SlotAccess:
        real = access(pool)
        between = [found.get(address) or found.setdefault(address, Forwarder(address)) for address in real.addresses]
        return replace(real, addresses=tuple(forwarder.address for forwarder in between))

    monkeypatch.setattr(SlotPool, "access", property(through_forwarders))
    yield found
    for forwarder in found.values():
        forwarder.close()


@pytest.mark.parametrize("encrypted", [True, False])
def test_nobody_between_tasks_and_slots_reads_along(spark, forwarders, encrypted):
    configuration = Configuration().set_boolean("flint.network.encryption", encrypted)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    words = env.from_collection([f"{MARK} {number}" for number in range(100)], Types.STRING())
    with words.key_by(lambda word: word[-1]).map(str.upper, Types.STRING()).execute_and_collect() as results:
        assert sorted(results) == sorted(f"{MARK} {number}".upper() for number in range(100))
    seen = b"".join(bytes(forwarder.seen) for forwarder in forwarders.values())
    assert len(seen) > 5_000
    assert (MARK.encode() in seen) is not encrypted
