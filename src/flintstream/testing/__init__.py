"""Tests operators, functions and small jobs without Spark, in milliseconds.

from flintstream.testing import OneInputOperatorHarness

with OneInputOperatorHarness(MyProcessFunction(), key_selector=lambda event: event.user) as harness:
    harness.process_element(event, timestamp=1000)
    assert harness.output == [...]
"""

from flintstream.runtime.block import Idleness, Watermark
from flintstream.runtime.faults import UserCodeError
from flintstream.testing.harness import OneInputOperatorHarness, OperatorHarness, TwoInputOperatorHarness
from flintstream.testing.local_job import LocalJob, run_graph_locally
from flintstream.testing.recording import Record

__all__ = [
    "Idleness",
    "LocalJob",
    "OneInputOperatorHarness",
    "OperatorHarness",
    "Record",
    "TwoInputOperatorHarness",
    "UserCodeError",
    "Watermark",
    "run_graph_locally",
]
