"""Tests of keyed state run with each state backend."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flintstream.testing import OperatorHarness


@pytest.fixture(scope="module", params=["hashmap", "rocksdb"])
def state_backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """The backend of all harnesses that do not choose one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OperatorHarness, "default_state_backend", request.param)
        yield request.param
