"""Which jobs must run in epochs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flintstream.jobmaster.transports import why_not
from flintstream.runtime.operators.cache import CacheSourceOperator
from flintstream.runtime.operators.source import SparkSourceOperator

from ..graph.programs import execution_graph, sink, source


@pytest.mark.parametrize(
    ("operator", "batch_mode", "reason"),
    [
        (SparkSourceOperator(("a",)), False, "Spark reads the DataFrame of source 'Source: Numbers', epoch by epoch"),
        (CacheSourceOperator(), False, "Spark reads the cached stream of source 'Source: Numbers', epoch by epoch"),
        (None, True, "in batch mode each level needs the whole input"),
        (None, False, None),
    ],
)
def test_why_a_job_is_not_pipelined(operator: Any, batch_mode: bool, reason: str | None) -> None:
    settings = {} if operator is None else {"operator": operator}
    job: Any = SimpleNamespace(
        settings=SimpleNamespace(batch_mode=batch_mode), graph=execution_graph(sink(source(**settings)))
    )
    assert why_not(job) == reason
