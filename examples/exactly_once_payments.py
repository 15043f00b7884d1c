"""Payments into a database, each exactly once, though a process is killed on the way: a two-phase commit.

A transaction of the sink is a number in the table `staged`: payments that nobody counts yet. Committing it moves them to the
table `payments`, in one transaction of the database. Committing it again moves nothing, so that it does no harm when the
job is restarted and cannot know whether it has been done.

python examples/exactly_once_payments.py [DATABASE]
"""

import os
import sqlite3
import sys
import tempfile
import time
import uuid
from pathlib import Path

from flintstream.common import RestartStrategies, Types, WatermarkStrategy
from flintstream.datastream import MapFunction, StreamExecutionEnvironment, TwoPhaseCommitSinkFunction
from flintstream.datastream.connectors.number_seq import NumberSequenceSource

LAST = 2000


class PaymentSink(TwoPhaseCommitSinkFunction):
    def __init__(self, path):
        super().__init__()
        self.path = path
        self.rows = []

    def open(self, runtime_context):
        self.database = sqlite3.connect(self.path, timeout=60)

    def begin_transaction(self):
        self.rows = []
        return str(uuid.uuid4())

    def invoke(self, transaction, amount, context):
        self.rows.append((transaction, amount))

    def pre_commit(self, transaction):
        """A checkpoint is being taken: from here on, nothing of the transaction may get lost."""
        with self.database:
            self.database.executemany("INSERT INTO staged VALUES (?, ?)", self.rows)

    def commit(self, transaction):
        """The checkpoint is complete, so the records will not come again."""
        with self.database:
            self.database.execute("INSERT INTO payments SELECT amount FROM staged WHERE number = ?", (transaction,))
            self.database.execute("DELETE FROM staged WHERE number = ?", (transaction,))

    def abort(self, transaction):
        with self.database:
            self.database.execute("DELETE FROM staged WHERE number = ?", (transaction,))

    def close(self):
        self.database.close()


class Accident(MapFunction):
    """Kills its process at some records, the first time that they come."""

    def __init__(self, directory):
        self.directory = directory

    def map(self, amount):
        time.sleep(0.0005)
        mark = Path(self.directory, f"accident-{amount}")
        if amount in (600, 1500) and not mark.exists():
            mark.touch()
            os._exit(1)
        return amount


def main():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else f"{directory}/payments.db")
        database = sqlite3.connect(path)
        with database:
            database.execute("CREATE TABLE IF NOT EXISTS staged (number TEXT, amount INTEGER)")
            database.execute("CREATE TABLE IF NOT EXISTS payments (amount INTEGER)")

        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(2)
        env.enable_checkpointing(200)  # milliseconds
        env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 0))
        source = NumberSequenceSource(1, LAST)
        amounts = env.from_source(source, WatermarkStrategy.no_watermarks(), "amounts")
        amounts.map(Accident(directory), Types.LONG()).add_sink(PaymentSink(path)).name("payments")
        env.execute("exactly once")

        accidents = len(list(Path(directory).glob("accident-*")))
        count, total = database.execute("SELECT count(*), sum(amount) FROM payments").fetchone()
        print(f"{accidents} accidents, {count} payments, {total} in all")


if __name__ == "__main__":
    main()
