"""The collector of slots: old cycles are freed, and state is not walked over again and again."""

from __future__ import annotations

import subprocess
import sys

import pytest

SETUP = """
import gc
import weakref

from flintstream.runtime.slot.garbage import GarbageCollection


class Cycle:
    def __init__(self, size=0):
        self.me = self
        self.content = b"x" * size


garbage = GarbageCollection()
garbage.begin()
"""


@pytest.fixture
def run():
    """Runs a program in a Python of its own: the collector is the process's."""

    def run(program: str) -> str:
        done = subprocess.run([sys.executable, "-c", SETUP + program], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def test_cycles_that_outlive_an_epoch_are_freed_when_they_are_dropped(run):
    """Each value stays for ten epochs; 1,000 of them live."""
    alive = run("""
alive, most, state = weakref.WeakSet(), 0, []
for epoch in range(2000):
    fresh = [Cycle() for _ in range(100)]
    alive.update(fresh)
    state.append(fresh)
    del fresh, state[:-10]
    garbage.epoch_done()
    most = max(most, len(alive))
print(most)
""")
    assert int(alive) < 15_000


def test_cycles_that_were_there_at_the_beginning_are_freed(run):
    """State that was restored, say."""
    left = run("""
gc.enable()
state = [Cycle() for _ in range(1000)]
alive = weakref.WeakSet(state)
garbage = GarbageCollection()
garbage.begin()
state = []
while garbage.full_collections == 0:
    state.append([[] for _ in range(1000)])
    garbage.epoch_done()
print(len(alive))
""")
    assert left == "0"


def test_few_cycles_that_hold_much_are_freed_too(run):
    most = run("""
alive, most, state = weakref.WeakSet(), 0, []
for epoch in range(300):
    value = Cycle(1 << 20)
    alive.add(value)
    state = [value]
    del value
    garbage.epoch_done()
    most = max(most, len(alive))
print(most)
""")
    assert int(most) < 150


def test_state_that_only_grows_is_walked_over_rarely(run):
    """A million keys with a container each, in a thousand epochs."""
    collections = run("""
state = {}
for epoch in range(1000):
    for key in range(1000):
        state[epoch, key] = [key]
    garbage.epoch_done()
print(garbage.full_collections)
""")
    assert 2 <= int(collections) <= 12


def test_state_of_constant_size_is_not_walked_over_at_all(run):
    collections = run("""
state = {key: [key] for key in range(100_000)}
garbage.begin()
for epoch in range(300):
    for key in range(1000):
        state[key] = [key, epoch]
    garbage.epoch_done()
print(garbage.full_collections)
""")
    assert collections == "0"
