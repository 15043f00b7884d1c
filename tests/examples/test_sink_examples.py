"""The examples of sinks."""

from __future__ import annotations

import runpy
import sqlite3
from pathlib import Path

from flintstream.testing import OneInputOperatorHarness

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_exactly_once_payments(run):
    assert run("exactly_once_payments") == ["2 accidents, 2000 payments, 2001000 in all"]


def test_a_payment_is_neither_lost_nor_made_twice_when_its_commit_is_repeated(tmp_path):
    sink = runpy.run_path(str(EXAMPLES / "exactly_once_payments.py"), run_name="example")["PaymentSink"]
    path = str(tmp_path / "payments.db")
    database = sqlite3.connect(path)
    with database:
        database.execute("CREATE TABLE staged (number TEXT, amount INTEGER)")
        database.execute("CREATE TABLE payments (amount INTEGER)")

    def payments():
        return [amount for (amount,) in database.execute("SELECT amount FROM payments")]

    with OneInputOperatorHarness(sink(path)) as harness:
        harness.process_elements([5, 7])
        kept = harness.snapshot(1)
        harness.process_element(9)
        assert payments() == []
    for _ in range(2):
        again = OneInputOperatorHarness(sink(path))
        again.restore(kept)
        with again:
            assert payments() == [5, 7]
    database.close()
