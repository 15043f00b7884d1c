"""Compaction of part files: what becomes of them, when, and that a job killed anywhere loses and doubles nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flintstream.common import Encoder, Types
from flintstream.connectors.files import compacted as compacted_files
from flintstream.connectors.files import compaction as file_compaction
from flintstream.connectors.files import part_files
from flintstream.connectors.files.compacted import directory_of
from flintstream.connectors.files.compactor import owner_of
from flintstream.connectors.files.parquet_joining import join_parquet_files
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.file_system import (
    BucketAssigner,
    ConcatFileCompactor,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    IdenticalFileCompactor,
    OutputStreamBasedFileCompactor,
    RecordWiseFileCompactor,
    RollingPolicy,
    StreamFormat,
)
from flintstream.datastream.formats.parquet import ParquetBulkWriters
from flintstream.runtime.faults import UserCodeError
from flintstream.testing import LocalJob, OneInputOperatorHarness

from .drill import Drill, killed_everywhere, points_around
from .totals import Totals

RECORDS = [f"record {number:02}" for number in range(16)]
ON_CHECKPOINT = RollingPolicy.on_checkpoint_rolling_policy()
GOING_ON = RollingPolicy.default_rolling_policy(part_size=20)
CONCAT = FileCompactor.concat_file_compactor()


@pytest.fixture(autouse=True)
def no_disk_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_files.os, "fsync", lambda file: None)


class ByLastDigit(BucketAssigner):
    def get_bucket_id(self, element: Any, context: Any) -> str:
        return f"digit={int(element[-1]) % 2}"


def after(checkpoints: int) -> FileCompactStrategy:
    return FileCompactStrategy.builder().enable_compaction_on_checkpoint(checkpoints).build()


def of_size(size: int) -> FileCompactStrategy:
    return FileCompactStrategy.builder().set_size_threshold(size).build()


def row_builder(
    path: Any, policy: RollingPolicy = ON_CHECKPOINT, assigner: BucketAssigner | None = None
) -> FileSink.BaseBuilder:
    builder = FileSink.for_row_format(str(path), Encoder.simple_string_encoder()).with_rolling_policy(policy)
    return builder.with_bucket_assigner(assigner or BucketAssigner.base_path_bucket_assigner())


def row_sink(
    path: Any,
    strategy: FileCompactStrategy,
    policy: RollingPolicy = ON_CHECKPOINT,
    assigner: BucketAssigner | None = None,
    compactor: FileCompactor = CONCAT,
) -> FileSink:
    return row_builder(path, policy, assigner).enable_compact(strategy, compactor).build()


ROW = Types.ROW_NAMED(["text"], [Types.STRING()])


def parquet_sink(path: Any, strategy: FileCompactStrategy) -> FileSink:
    builder = FileSink.for_bulk_format(str(path), ParquetBulkWriters.for_row_type(ROW))
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    return builder.enable_compact(strategy, RecordWiseFileCompactor()).build()


def files(path: Path) -> list[Path]:
    return [file for file in sorted(path.rglob("*")) if file.is_file() and not file.name.startswith(".")]


def hidden(path: Path) -> list[Path]:
    return [file for file in sorted(path.rglob("*")) if file.is_file() and file.name.startswith(".")]


def lines(path: Path) -> list[str]:
    return [line for file in files(path) for line in file.read_text().splitlines()]


def texts(path: Path) -> list[str]:
    return [text for file in files(path) for text in pq.read_table(file)["text"].to_pylist()]


class Subtask:
    """A subtask of the operator that writes and one of the operator that compacts, as a job would run them."""

    def __init__(self, sink: FileSink, parallelism: int, subtask: int, peers: list[Subtask]) -> None:
        second = sink.create_second_stage()
        assert second is not None
        self.writer = OneInputOperatorHarness(sink, parallelism=parallelism, subtask=subtask)
        self.compactor = OneInputOperatorHarness(second.operator, parallelism=parallelism, subtask=subtask)
        self.process_elements = self.writer.process_elements
        self.ended = False
        self.peers = peers
        peers.append(self)

    def restore(self, *snapshots: Any) -> None:
        self.writer.restore(*[writer for writer, _ in snapshots])
        self.compactor.restore(*[compactor for _, compactor in snapshots])

    def open(self) -> None:
        self.compactor.open()
        self.writer.open()

    def end_epoch(self) -> None:
        self.writer.end_epoch()
        self._exchange()
        self.compactor.end_epoch()

    def end_input(self) -> None:
        self.writer.end_input()
        self._exchange()
        self.ended = True
        if all(peer.ended for peer in self.peers):
            for peer in self.peers:
                peer.compactor.end_input()

    def _exchange(self) -> None:
        for file in self.writer.output:
            self.peers[owner_of(directory_of(file), len(self.peers))].compactor.process_element(file)
        self.writer.clear_output()

    def snapshot(self, checkpoint_id: int = 1, timestamp: int = 0) -> Any:
        return self.writer.snapshot(checkpoint_id, timestamp), self.compactor.snapshot(checkpoint_id, timestamp)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.writer.notify_checkpoint_complete(checkpoint_id)
        self.compactor.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        self.writer.notify_checkpoint_aborted(checkpoint_id)
        self.compactor.notify_checkpoint_aborted(checkpoint_id)

    def checkpoint(self, checkpoint_id: int) -> Any:
        """One that is complete at once."""
        taken = self.snapshot(checkpoint_id)
        self.notify_checkpoint_complete(checkpoint_id)
        return taken

    def close(self) -> None:
        self.writer.close()
        self.compactor.close()

    def __enter__(self) -> Subtask:
        self.open()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def job(sink: FileSink, parallelism: int = 1) -> list[Subtask]:
    peers: list[Subtask] = []
    return [Subtask(sink, parallelism, subtask, peers) for subtask in range(parallelism)]


def single(sink: FileSink, *restored: Any) -> Subtask:
    (subtask,) = job(sink)
    if restored:
        subtask.restore(*restored)
    return subtask


class AtOnce:
    """Threads that have done their work when it is given to them; a kill is not caught."""

    def __init__(self, *options: Any) -> None:
        """Nothing to start."""

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(call(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future

    def shutdown(self, cancel_futures: bool) -> None:
        """Nothing to end."""


class _LateFuture(Future[Any]):
    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__()
        self.call: Callable[[], Any] | None = call
        self.asked = 0

    def done(self) -> bool:
        self.asked += 1
        if self.asked > 3:
            self.run()
        return super().done()

    def result(self, timeout: float | None = None) -> Any:
        self.run()
        return super().result(timeout)

    def run(self) -> None:
        call, self.call = self.call, None
        if call is not None:
            self.set_result(call())


class Slow:
    """Threads that are still at work when they are asked at first: over a checkpoint."""

    def __init__(self, *options: Any) -> None:
        self.futures: list[_LateFuture] = []

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        self.futures.append(_LateFuture(lambda: call(*arguments)))
        return self.futures[-1]

    def shutdown(self, cancel_futures: bool) -> None:
        for future in self.futures:
            future.cancel()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacted_files, "ThreadPoolExecutor", AtOnce)


# --- when ---


@pytest.mark.usefixtures("at_once")
def test_files_are_hidden_until_so_many_checkpoints_were_taken(tmp_path: Path) -> None:
    with single(row_sink(tmp_path, after(2))) as subtask:
        for checkpoint in (1, 2):
            subtask.process_elements([f"{checkpoint}"])
            subtask.end_epoch()
            subtask.checkpoint(checkpoint)
            assert files(tmp_path) == []
        subtask.end_epoch()
        assert files(tmp_path) == [], "no checkpoint knows the large file"
        subtask.process_elements(["3"])
        subtask.checkpoint(3)
        (file,) = files(tmp_path)
        assert file.read_text() == "1\n2\n"
        assert file.name.startswith("compacted-part-") and file.name.endswith("-0-0")
        (left,) = hidden(tmp_path)
        assert left.read_text() == "3\n"


@pytest.mark.usefixtures("at_once")
def test_files_are_compacted_when_those_of_a_bucket_are_large_enough(tmp_path: Path) -> None:
    with single(row_sink(tmp_path, of_size(6), assigner=ByLastDigit())) as subtask:
        for checkpoint, records in enumerate((["a 0", "a 1"], ["b 1"], ["c 0"], ["d 0"]), 1):
            subtask.process_elements(records)
            subtask.checkpoint(checkpoint)
            subtask.end_epoch()
        subtask.checkpoint(5)
        assert [file.read_text() for file in files(tmp_path)] == ["a 0\nc 0\n", "a 1\nb 1\n"]
        assert [file.read_text() for file in hidden(tmp_path)] == ["d 0\n"], "too small alone"


@pytest.mark.usefixtures("at_once")
def test_files_of_all_subtasks_become_one(tmp_path: Path) -> None:
    subtasks = job(row_sink(tmp_path, after(1)), parallelism=3)
    for number, subtask in enumerate(subtasks):
        subtask.open()
        subtask.process_elements([f"{number}"])
    for act in (Subtask.end_input, Subtask.snapshot, lambda subtask: subtask.notify_checkpoint_complete(1)):
        for subtask in subtasks:
            act(subtask)
    for subtask in subtasks:
        subtask.close()
    (file,) = files(tmp_path)
    assert sorted(file.read_text().split()) == ["0", "1", "2"]
    assert hidden(tmp_path) == []


def test_what_is_left_at_the_end_of_the_input_is_compacted(tmp_path: Path) -> None:
    with single(row_sink(tmp_path, of_size(10**9))) as subtask:
        for checkpoint in (1, 2):
            subtask.process_elements([f"{checkpoint}"])
            subtask.checkpoint(checkpoint)
            subtask.end_epoch()
        subtask.process_elements(["3"])
        subtask.end_input()
        subtask.checkpoint(3)
    (file,) = files(tmp_path)
    assert file.read_text() == "1\n2\n3\n"
    assert hidden(tmp_path) == []


def test_a_single_file_only_gets_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacted_files, "ThreadPoolExecutor", None)
    for name, compactor in (("concat", CONCAT), ("identical", FileCompactor.identical_file_compactor())):
        with single(row_sink(tmp_path / name, after(1), compactor=compactor)) as subtask:
            subtask.process_elements(["a"])
            subtask.end_input()
            subtask.checkpoint(1)
        (file,) = files(tmp_path / name)
        assert file.name.startswith("compacted-part-") and file.read_text() == "a\n"
        assert hidden(tmp_path / name) == []


def test_an_idle_job_is_asked_for_epochs_while_files_are_on_their_way(tmp_path: Path) -> None:
    asked: list[str] = []
    subtask = single(row_sink(tmp_path, after(2)))
    subtask.writer._operator.context.services.notify_data = lambda: asked.append("writer")
    subtask.compactor._operator.context.services.notify_data = lambda: asked.append("compactor")
    with subtask:
        subtask.process_elements(["a"])
        subtask.end_epoch()
        assert asked == []
        subtask.checkpoint(1)
        assert asked == ["writer"], "the file is complete, and has to be handed over"
        subtask.end_epoch()
        subtask.checkpoint(2)
        assert asked == ["writer", "compactor"], "another checkpoint is needed"
        subtask.end_epoch()
        subtask.checkpoint(3)
        assert len(files(tmp_path)) == 1
        subtask.checkpoint(4)
        assert asked == ["writer", "compactor"], "nothing is left to do"


def test_a_thread_that_has_made_a_file_asks_for_an_epoch_and_a_checkpoint_does_not_wait_for_it(tmp_path: Path) -> None:
    import threading

    go_on, asked = threading.Event(), threading.Event()

    class Waiting(ConcatFileCompactor):
        def do_compact(self, input_files: list[str], output_stream: Any) -> None:
            assert go_on.wait(10)
            super().do_compact(input_files, output_stream)

    subtask = single(row_sink(tmp_path, of_size(4), compactor=Waiting()))
    subtask.compactor._operator.context.services.notify_data = asked.set
    with subtask:
        for checkpoint in (1, 2):
            subtask.process_elements([f"{checkpoint}"])
            subtask.checkpoint(checkpoint)
            subtask.end_epoch()
        kept = subtask.checkpoint(3)
        assert files(tmp_path) == []
        go_on.set()
        assert asked.wait(10)
        subtask.checkpoint(4)
        assert lines(tmp_path) == ["1", "2"]
    again = single(row_sink(tmp_path, of_size(4), compactor=Waiting()), kept)
    with (
        pytest.raises(UserCodeError, match="the file to compact does not exist.*an old checkpoint"),
        again,
    ):
        again.end_input()


# --- how ---


def compacted(path: Path, sink: FileSink, *parts: list[Any]) -> Path:
    """The file that becomes of several."""
    with single(sink) as subtask:
        for checkpoint, records in enumerate(parts, 1):
            subtask.process_elements(records)
            subtask.checkpoint(checkpoint)
            subtask.end_epoch()
        subtask.end_input()
        subtask.checkpoint(len(parts) + 1)
    (file,) = files(path)
    assert hidden(path) == []
    return file


def test_a_delimiter_stands_between_files(tmp_path: Path) -> None:
    compactor = FileCompactor.concat_file_compactor(b"--\n")
    file = compacted(tmp_path, row_sink(tmp_path, after(9), compactor=compactor), ["a", "b"], ["c"], ["d"])
    assert file.read_text() == "a\nb\n--\nc\n--\nd\n"


def test_a_compactor_of_ones_own(tmp_path: Path) -> None:
    class Sorted(OutputStreamBasedFileCompactor):
        def do_compact(self, input_files: list[str], output_stream: Any) -> None:
            read = b"".join(Path(path).read_bytes() for path in input_files)
            output_stream.writelines(sorted(read.splitlines(keepends=True)))

    file = compacted(tmp_path, row_sink(tmp_path, after(9), compactor=Sorted()), ["c", "a"], ["b"])
    assert file.read_text() == "a\nb\nc\n"
    shutil.rmtree(tmp_path)
    assert compacted(tmp_path, row_sink(tmp_path, after(9), compactor=Sorted()), ["b", "a"]).read_text() == "a\nb\n"


def test_records_are_read_and_written_again(tmp_path: Path) -> None:
    compactor = FileCompactor.record_wise_file_compactor(StreamFormat.text_line_format())
    assert compacted(tmp_path, row_sink(tmp_path, after(9), compactor=compactor), ["a"], ["b"]).read_text() == "a\nb\n"


def test_records_of_a_bulk_format_are_read_by_a_format_and_written_by_the_sinks_own(tmp_path: Path) -> None:
    from flintstream.datastream.connectors.file_system import LineFormat

    class WithoutTotals(LineFormat):
        def decode(self, lines: list[str]) -> list[Any]:
            return [line for line in lines if not line.startswith("total")]

    builder = FileSink.for_bulk_format(str(tmp_path), Totals())
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    sink = builder.enable_compact(after(9), RecordWiseFileCompactor(WithoutTotals())).build()
    assert compacted(tmp_path, sink, ["a", "b"], ["c"]).read_text() == "a\nb\nc\ntotal 3\n"


def test_small_row_groups_of_parquet_become_a_large_one(tmp_path: Path) -> None:
    file = compacted(tmp_path, parquet_sink(tmp_path, after(9)), [("a",), ("b",)], [("c",)], [(None,)])
    read = pq.ParquetFile(file)
    assert read.read()["text"].to_pylist() == ["a", "b", "c", None]
    assert read.metadata.num_row_groups == 1
    assert read.metadata.row_group(0).column(0).compression == "SNAPPY"


def test_parquet_keeps_its_types_and_compression_and_refuses_other_columns(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int16()), ("tags", pa.list_(pa.string())), ("at", pa.timestamp("us", "UTC"))])
    tables = [pa.table({"id": [n], "tags": [["x"]], "at": [n]}, schema=schema) for n in (1, 2)]
    paths = [str(tmp_path / f"{number}") for number in range(3)]
    for table, path in zip([*tables, pa.table({"id": [1]})], paths, strict=True):
        pq.write_table(table, path, compression="zstd")
    joined = tmp_path / "joined"
    with joined.open("wb") as stream:
        join_parquet_files(paths[:2], stream)
    assert pq.read_table(joined).equals(pa.concat_tables(tables))
    assert pq.ParquetFile(joined).metadata.row_group(0).column(0).compression == "ZSTD"
    with (
        pytest.raises(ValueError, match=r"2 has the columns id: int64, but .*0 has id: int16"),
        joined.open("wb") as stream,
    ):
        join_parquet_files(paths, stream)


def test_what_is_refused(tmp_path: Path) -> None:
    rows = row_builder(tmp_path)
    bulk = FileSink.for_bulk_format(str(tmp_path), Totals())
    parquet = FileSink.for_bulk_format(str(tmp_path), ParquetBulkWriters.for_row_type(ROW))
    with pytest.raises(ValueError, match="files of Totals cannot be concatenated"):
        bulk.enable_compact(after(1), CONCAT)
    with pytest.raises(ValueError, match="files of ParquetWriterFactory cannot be concatenated"):
        parquet.enable_compact(after(1), CONCAT)
    with pytest.raises(ValueError, match="reads Parquet by default, but Totals writes another format"):
        bulk.enable_compact(after(1), RecordWiseFileCompactor())
    with pytest.raises(ValueError, match="reads Parquet by default, but Encoder writes another format"):
        rows.enable_compact(after(1), RecordWiseFileCompactor())
    with pytest.raises(TypeError, match="enable_compact: strategy must be a FileCompactStrategy, got 5"):
        rows.enable_compact(5, CONCAT)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="enable_compact: compactor must be a FileCompactor, got None"):
        rows.enable_compact(after(1), None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="file_delimiter must be bytes, got 'x'"):
        FileCompactor.concat_file_compactor("x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="reader must be a StreamFormat or a BulkFormat, got 'x'"):
        RecordWiseFileCompactor("x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="set a size threshold or a number of checkpoints"):
        FileCompactStrategy.builder().set_num_compact_threads(2).build()


def test_a_failing_compactor_fails_the_job_and_leaves_the_files(tmp_path: Path) -> None:
    subtask = single(row_sink(tmp_path, after(9), compactor=IdenticalFileCompactor()))
    with pytest.raises(UserCodeError, match="IdenticalFileCompactor: expected a single file, got 2"), subtask:
        for checkpoint in (1, 2):
            subtask.process_elements([f"{checkpoint}"])
            kept = subtask.checkpoint(checkpoint)
            subtask.end_epoch()
        subtask.end_input()
    assert [file.read_text() for file in hidden(tmp_path)] == ["1\n", "2\n"]
    with single(row_sink(tmp_path, after(9)), kept) as again:
        again.end_input()
        again.checkpoint(3)
    assert lines(tmp_path) == ["1", "2"]
    assert hidden(tmp_path) == []


# --- another sink goes on from a savepoint ---


@pytest.mark.parametrize("threads", [AtOnce, Slow])
def test_a_sink_that_does_not_compact_any_more_gives_what_is_left_its_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: Any
) -> None:
    monkeypatch.setattr(compacted_files, "ThreadPoolExecutor", threads)
    with single(row_sink(tmp_path, of_size(4))) as subtask:
        for checkpoint, record in enumerate("abcd", 1):
            subtask.process_elements([record])
            kept = subtask.snapshot(checkpoint)  # a and b are compacted, c waits, d is to be handed over
            if record != "d":
                subtask.end_epoch()
    assert files(tmp_path) == []
    with single(row_builder(tmp_path).disable_compact().build(), kept) as again:
        again.process_elements(["e"])
        again.end_epoch()
        again.checkpoint(5)
        assert sorted(lines(tmp_path)) == ["a", "b", "c", "d", "e"]
        assert sum(file.name.startswith("part-") for file in files(tmp_path)) == 1, "what is new keeps its own name"
        again.process_elements(["f"])
        later = again.checkpoint(6)
    with single(row_sink(tmp_path, of_size(4)), later) as back:
        back.process_elements(["g"])
        back.end_input()
        back.checkpoint(7)
    assert sorted(lines(tmp_path)) == ["a", "b", "c", "d", "e", "f", "g"]
    assert hidden(tmp_path) == []


def test_a_sink_without_compaction_refuses_files_that_were_to_be_compacted(tmp_path: Path) -> None:
    with single(row_sink(tmp_path, of_size(4))) as subtask:
        subtask.process_elements(["a"])
        writer, _ = subtask.checkpoint(1)
    plain = OneInputOperatorHarness(row_builder(tmp_path).build())
    plain.restore(writer)
    with pytest.raises(UserCodeError, match=r"compaction is not configured any more: call disable_compact\(\)"), plain:
        pass


@pytest.mark.parametrize("policy", [ON_CHECKPOINT, RollingPolicy.default_rolling_policy()])
def test_a_sink_begins_to_compact(tmp_path: Path, policy: RollingPolicy) -> None:
    with OneInputOperatorHarness(row_builder(tmp_path, policy).build()) as plain:
        plain.process_element("a")
        kept = plain.snapshot(1)
    subtask = single(row_sink(tmp_path, of_size(4), policy))
    subtask.writer.restore(kept)
    with subtask:
        subtask.process_elements(["b"])
        subtask.end_input()
        subtask.checkpoint(2)
    assert sorted(lines(tmp_path)) == ["a", "b"]
    assert hidden(tmp_path) == []


@pytest.mark.usefixtures("at_once")
def test_the_files_of_a_bucket_find_together_again_at_another_parallelism(tmp_path: Path) -> None:
    sink = row_sink(tmp_path, after(3), assigner=ByLastDigit())
    before = job(sink, parallelism=3)
    for number, subtask in enumerate(before):
        subtask.open()
        subtask.process_elements([f"{number} 0", f"{number} 1"])
    for subtask in before:
        subtask.snapshot(1)
    for subtask in before:
        subtask.end_epoch()
    kept = [subtask.snapshot(2) for subtask in before]
    for subtask in before:
        subtask.close()
    behind = job(sink, parallelism=2)
    for subtask in behind:
        subtask.restore(*kept)
        subtask.open()
    for checkpoint in (3, 4):
        for subtask in behind:
            subtask.snapshot(checkpoint)
        for subtask in behind:
            subtask.notify_checkpoint_complete(checkpoint)
            subtask.end_epoch()
    for subtask in behind:
        subtask.close()
    even, odd = files(tmp_path)
    assert sorted(even.read_text().splitlines()) == ["0 0", "1 0", "2 0"]
    assert sorted(odd.read_text().splitlines()) == ["0 1", "1 1", "2 1"]


def test_files_that_no_checkpoint_knows_are_cleared_away(tmp_path: Path) -> None:
    with single(row_sink(tmp_path, of_size(4))) as subtask:
        for checkpoint in (1, 2):
            subtask.process_elements([f"{checkpoint}"])
            kept = subtask.checkpoint(checkpoint)
            subtask.end_epoch()
    assert [file.read_text() for file in hidden(tmp_path)] == ["1\n", "2\n"]
    with single(row_sink(tmp_path, of_size(4)), kept) as again:
        again.end_input()
        last = again.snapshot(3)
    assert len(hidden(tmp_path)) == 3, "the checkpoint may be complete"
    with single(row_sink(tmp_path, of_size(4)), last):
        assert lines(tmp_path) == ["1", "2"]
        assert hidden(tmp_path) == []


# --- killed anywhere ---

SINKS: dict[str, tuple[Callable[[Any], FileSink], Callable[[Path], list[str]]]] = {
    "after one checkpoint": (lambda path: row_sink(path, after(1)), lines),
    "after two checkpoints": (lambda path: row_sink(path, after(2), assigner=ByLastDigit()), lines),
    "of a size": (lambda path: row_sink(path, of_size(25), assigner=ByLastDigit()), lines),
    "of a size, going on": (lambda path: row_sink(path, of_size(50), GOING_ON), lines),
    "parquet": (lambda path: parquet_sink(path, after(1)), texts),
}


def drill(monkeypatch: pytest.MonkeyPatch, sink: str, path: Path, kill_at: Collection[int], **options: Any) -> Drill:
    shutil.rmtree(path, ignore_errors=True)
    make, read = SINKS[sink]
    records = [(record,) for record in RECORDS] if sink == "parquet" else RECORDS

    def visible() -> list[Any]:
        return [(text,) for text in read(path)] if sink == "parquet" else read(path)

    made = Drill(
        lambda: make(path),
        visible,
        kill_at,
        records=records,
        place=lambda parallelism: job(make(path), parallelism),
        **options,
    )
    original = made.run

    def run() -> Drill:
        with ExitStack() as points:
            for owner, name in (
                (part_files, "rename"),
                (compacted_files, "hidden_path"),
                (file_compaction, "_copy"),
                (compacted_files, "remove"),
            ):
                points.enter_context(points_around(monkeypatch, owner, name, made.point))
            return original()

    made.run = run  # type: ignore[method-assign]
    return made


def killed(monkeypatch: pytest.MonkeyPatch, sink: str, path: Path, **options: Any) -> Iterator[Drill]:
    return killed_everywhere(lambda kill_at: drill(monkeypatch, sink, path, kill_at, **options))


@pytest.mark.parametrize("sink", [sink for sink in SINKS if sink != "parquet"])
@pytest.mark.usefixtures("at_once")
def test_killed_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sink: str) -> None:
    read = SINKS[sink][1]
    for done in killed(monkeypatch, sink, tmp_path, parallelism=(2, 3), gracefully=False):
        assert sorted(read(tmp_path)) == RECORDS, f"after {done.points} points"
        if done.attempts == 1:
            assert hidden(tmp_path) == [], "nothing is left behind"


@pytest.mark.usefixtures("at_once")
def test_parquet_files_of_a_killed_job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for kill_at in (0, 20, 35, 36, 40, 43, 44, 45, 46, 47):
        drill(monkeypatch, "parquet", tmp_path, (kill_at,), gracefully=False).run()
        assert sorted(texts(tmp_path)) == RECORDS


@pytest.mark.parametrize("sink", ["after one checkpoint", "of a size, going on"])
@pytest.mark.parametrize("options", [{"late": True}, {"parallelism": (2, 1), "aborted": (1, 3)}], ids=str)
def test_killed_anywhere_while_files_are_compacted_over_checkpoints(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sink: str, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(compacted_files, "ThreadPoolExecutor", Slow)
    for done in killed(monkeypatch, sink, tmp_path, **options):
        assert sorted(lines(tmp_path)) == RECORDS, f"after {done.points} points"


@pytest.mark.usefixtures("at_once")
def test_behind_a_url() -> None:
    memory = fsspec.filesystem("memory")

    def read() -> list[str]:
        names = [name for name in memory.find("/compaction") if not name.rpartition("/")[2].startswith(".")]
        return [line for name in names for line in memory.cat(name).decode().splitlines()]

    sink = row_sink("memory://compaction/out", after(1), GOING_ON)
    for kill_at in (0, 20, 30, 31, 32, 33, 40):
        if memory.exists("/compaction"):
            memory.rm("/compaction", recursive=True)
        Drill(lambda: sink, read, (kill_at,), records=RECORDS, place=lambda parallelism: job(sink, parallelism)).run()
        assert sorted(read()) == RECORDS


# --- in a job ---


def test_a_local_job_compacts_what_all_subtasks_have_written(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(3)
    env.from_collection(RECORDS, Types.STRING()).rebalance().sink_to(row_sink(tmp_path, after(1)))
    LocalJob(env.generate_stream_graph(), records_per_epoch=2).run()
    (file,) = files(tmp_path)
    assert sorted(file.read_text().splitlines()) == RECORDS
    assert hidden(tmp_path) == []


def test_the_settings_of_the_sink_are_those_of_both_operators(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection(RECORDS, Types.STRING())
    sink = stream.sink_to(row_sink(tmp_path, after(1)))
    sink.name("orders").uid("out").set_parallelism(3).set_max_parallelism(7).slot_sharing_group("sinks")
    _, writer, compactor = env.generate_stream_graph().nodes.values()
    assert [writer.name, writer.uid] == ["orders", "out"]
    assert [compactor.name, compactor.uid] == ["Sink: orders: Compactor", "out: Compactor"]
    for node in (writer, compactor):
        assert [node.parallelism, node.max_parallelism, node.slot_sharing_group] == [3, 7, "sinks"]
