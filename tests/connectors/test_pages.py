"""Programs in the documentation that talk to a server: each runs against one of the tests' own."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.examples.pages import BLOCKS, Block

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("spark")]  # A server may have to be downloaded first.

SERVERS = {
    "cassandra": ("cassandra", "9042"),
    "elasticsearch": ("elasticsearch", "9200"),
    "hbase": ("hbase", "9090"),
    "kafka": ("kafka", "9092"),
    "rabbitmq": ("rabbitmq", "5672"),
    "redis": ("redis_server", "6379"),
}
"""The fixture of each server, and the port that programs know it by."""


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.server is not None], ids=str)
def test_program(
    block: Block,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert block.server is not None
    fixture, port = SERVERS[block.server]
    server = request.getfixturevalue(fixture)
    monkeypatch.chdir(tmp_path)
    assert port in block.text
    block.run(capsys, block.text.replace(port, str(server.port)))
