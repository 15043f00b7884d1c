"""Fixtures of the fault tests."""

from __future__ import annotations

import os

import pytest
from tests.faults.helpers import descendants, is_slot, wait_until


@pytest.fixture(autouse=True)
def no_slot_outlives_its_test():
    """Whatever a test does to a job, this driver has no slots when it is over."""
    yield
    wait_until(lambda: not any(map(is_slot, descendants(os.getpid()))), 10.0, "the end of all slots")


@pytest.fixture
def in_epochs(monkeypatch):
    """For tests of what happens to the Spark job of an epoch, whichever transport the others are run with."""
    monkeypatch.setenv("FLINT_TRANSPORT", "epochs")
