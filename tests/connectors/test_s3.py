"""S3: checkpoints, savepoints and files of a whole job in a bucket."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import boto3
import pytest
from tests.unit.s3_server import s3_server

from flintstream.connectors.files import paths

pytestmark = pytest.mark.timeout(900)  # The server is slow where many share the machine.
ROOT = Path(__file__).parents[2]


def test_what_others_do_to_a_bucket_is_seen() -> None:
    with s3_server() as bucket:
        client, name = boto3.client("s3"), bucket.removeprefix("s3://")

        def put(key: str, text: bytes) -> None:
            client.put_object(Bucket=name, Key=key, Body=text)

        def seen(pattern: str) -> list[str]:
            return [file.path.rpartition("/")[2] for file in paths.find_files(f"{bucket}/{pattern}")]

        put("in/a", b"1")
        assert seen("in") == seen("in/*") == ["a"]
        put("in/b", b"2")
        assert paths.exists(f"{bucket}/in/b")
        assert seen("in/*") == seen("in") == ["a", "b"]
        put("in/b", b"longer than before")
        with paths.open_for_reading(f"{bucket}/in/b") as file:
            assert file.read() == b"longer than before"
        client.delete_object(Bucket=name, Key="in/a")
        assert not paths.exists(f"{bucket}/in/a")
        assert seen("in") == seen("in/*") == ["b"]


def test_a_job_that_fails_and_is_stopped_with_a_savepoint_writes_each_record_once(tmp_path: Path) -> None:
    """In a process of its own: slots find the bucket by the environment in which Spark was started."""
    with s3_server() as bucket:
        command = [sys.executable, "-m", "tests.connectors.remote_files", bucket, str(tmp_path / "failed")]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stdout.endswith("each record once\n")
