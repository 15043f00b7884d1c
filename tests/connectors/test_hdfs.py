"""HDFS, over WebHDFS: checkpoints, savepoints and files of a cluster."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.waiting import wait_until

from flintstream.common import Configuration, Encoder, RestartStrategies, Types, WatermarkStrategy
from flintstream.connectors.files import paths
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.file_system import BucketAssigner, FileSink, FileSource, StreamFormat
from flintstream.datastream.connectors.number_seq import NumberSequenceSource
from flintstream.runtime.checkpoint.storage import StorageError, storage_at

from .hdfs import HdfsServer

pytestmark = pytest.mark.timeout(900)  # The server may have to be downloaded first.

LAST = 2000


def test_a_storage_of_checkpoints(hdfs: HdfsServer, tmp_path: Path) -> None:
    storage = storage_at(hdfs.new_directory())
    assert (storage.names(), storage.sizes("x"), storage.exists("x")) == ([], {}, False)
    storage.write("a/one", b"0123456789")
    storage.write("a/one", b"9876543210")
    storage.write("a/empty", b"")
    (tmp_path / "local").write_bytes(b"x" * 3_000_000)
    (tmp_path / "nothing").touch()
    storage.upload("a/b c", str(tmp_path / "local"))
    storage.upload("a/nothing", str(tmp_path / "nothing"))
    assert storage.names("a") == ["b c", "empty", "nothing", "one"]
    assert storage.sizes("a") == {"b c": 3_000_000, "empty": 0, "nothing": 0, "one": 10}
    assert storage.names() == ["a"] and storage.exists("a") and storage.exists("a/one")
    assert (storage.read("a/one"), storage.read("a/one", 2, 3)) == (b"9876543210", b"765")
    assert (storage.read("a/one", 8), storage.read("a/one", 20, 5), storage.read("a/empty")) == (b"10", b"", b"")
    storage.download("a/b c", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == b"x" * 3_000_000
    with pytest.raises(FileNotFoundError):
        storage.read("a/none")
    storage.remove_files(["a/one", "a/empty"])
    storage.remove("a/none")
    storage.remove_if_empty("a")
    assert storage.at("a").names() == ["b c", "nothing"]
    storage.remove("a")
    storage.remove_if_empty("")
    assert not storage.exists("")


def test_of_several_writers_one_creates_a_file(hdfs: HdfsServer) -> None:
    storage = storage_at(hdfs.new_directory())
    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(lambda n: storage.at("").create("lease", str(n).encode()), range(8)))
    assert created.count(True) == 1
    assert storage.read("lease") == str(created.index(True)).encode()
    assert storage.names() == ["lease"]
    assert not storage.create("lease", b"again")


def test_a_file_is_not_taken_for_missing_when_nobody_answers(hdfs: HdfsServer) -> None:
    away = storage_at("webhdfs://127.0.0.1:1/tests")
    with pytest.raises(OSError, match="refused"):
        away.exists("x")
    with pytest.raises(StorageError, match=r"webhdfs://127.0.0.1:1/tests/x"):
        away.write("x", b"")


def test_files_are_opened_and_renamed(hdfs: HdfsServer) -> None:
    directory = hdfs.new_directory()
    with paths.open_for_writing(f"{directory}/a") as file:
        file.write(b"to be ")
        file.write(b"x" * 6_000_000)  # more than a chunk
    with paths.open_for_writing(f"{directory}/new", exclusive=True) as file:
        file.write(b"or not")
    with pytest.raises(FileExistsError):
        paths.open_for_writing(f"{directory}/new", exclusive=True)
    with pytest.raises(FileExistsError):
        paths.rename(f"{directory}/a", f"{directory}/new")
    with pytest.raises(FileNotFoundError):
        paths.rename(f"{directory}/none", f"{directory}/other")
    paths.rename(f"{directory}/a", f"{directory}/b")
    found = paths.find_files(directory)
    assert [(file.path, file.size) for file in found] == [(f"{directory}/b", 6_000_006), (f"{directory}/new", 6)]
    with paths.open_for_reading(f"{directory}/b") as file:
        assert file.read(6) == b"to be "
        assert file.read() == b"x" * 6_000_000


class FailsOnce:
    """Fails in the middle, unless a file says that it has; takes its time, so that there are several epochs."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __call__(self, number: int) -> str:
        time.sleep(0.0005)
        if number == LAST // 2 and not Path(self.mark).exists():
            Path(self.mark).touch()
            raise RuntimeError("on purpose")
        return str(number)


def environment(checkpoints: str, **options: str) -> StreamExecutionEnvironment:
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key.replace("__", ".").replace("_", "-"), value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 0))
    env.enable_checkpointing(100)
    env.get_checkpoint_config().set_checkpoint_storage_dir(checkpoints)
    return env


def written_numbers(env: StreamExecutionEnvironment, results: str, mark: Path) -> None:
    builder = FileSink.for_row_format(results, Encoder.simple_string_encoder())
    sink = builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    numbers = env.from_source(NumberSequenceSource(1, LAST), WatermarkStrategy.no_watermarks(), "numbers").uid(
        "numbers"
    )
    numbers.map(FailsOnce(mark), Types.STRING()).uid("map").sink_to(sink).uid("files")


@pytest.mark.usefixtures("spark")
def test_a_job_that_fails_and_is_stopped_with_a_savepoint_writes_each_record_once(
    hdfs: HdfsServer, tmp_path: Path
) -> None:
    checkpoints, savepoints, results = (hdfs.new_directory() for _ in range(3))
    first = environment(checkpoints)
    written_numbers(first, results, tmp_path / "failed")
    job = first.execute_async()
    wait_until(lambda: paths.exists(results) and paths.find_files(results), what="the first results")
    savepoint = job.stop_with_savepoint(False, savepoints).result()
    assert savepoint.startswith("webhdfs://")
    again = environment(checkpoints, execution__state_recovery__path=savepoint)
    written_numbers(again, results, tmp_path / "failed")
    again.execute()
    assert (tmp_path / "failed").exists()
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), results).build()
    reading = environment(checkpoints)
    lines = reading.from_source(source, WatermarkStrategy.no_watermarks(), "lines")
    with lines.execute_and_collect() as found:
        assert sorted(map(int, found)) == list(range(1, LAST + 1))
