"""Environment variables that are set for a while."""

from __future__ import annotations

import os

import pytest

from flintstream.common.environment_variables import environment_variables


def test_what_was_there_before_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/theirs")
    monkeypatch.delenv("SPARK_HOME", raising=False)
    before = dict(os.environ)
    with (
        pytest.raises(KeyError, match="of the program"),
        environment_variables({"JAVA_HOME": "/ours", "SPARK_HOME": "/spark"}),
    ):
        assert (os.environ["JAVA_HOME"], os.environ["SPARK_HOME"]) == ("/ours", "/spark")
        raise KeyError("of the program")
    assert dict(os.environ) == before
