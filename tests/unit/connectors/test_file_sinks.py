"""FileSink, StreamingFileSink and TextFileSink: files, names, rolling, buckets."""

from __future__ import annotations

import datetime
import pickle
import re
import time
from pathlib import Path
from typing import Any

import pytest

from flintstream.common import Encoder, Row, Types
from flintstream.common.serialization import BulkWriterFactory
from flintstream.connectors.files import sink as file_sink_operator
from flintstream.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    OutputFileConfig,
    RollingPolicy,
    StreamFormat,
    StreamingFileSink,
    TextFileSink,
    WriteMode,
)
from flintstream.runtime.batch import Batch
from flintstream.runtime.faults import UserCodeError

from .operating import opened
from .reading import read_all

UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def builder(path: Path) -> Any:
    row_format = FileSink.for_row_format(str(path), Encoder.simple_string_encoder())
    return row_format.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())


def running(sink: FileSink, input_type: Any = None, subtask: int = 0) -> Any:
    operator = pickle.loads(pickle.dumps(sink.create_operator(input_type)))
    opened(operator, subtask, 4)
    return operator


def end(operator: Any) -> None:
    """What a job does at the end of the input: a last checkpoint."""
    operator.finish()
    complete(operator, 1_000)


def complete(operator: Any, checkpoint_id: int) -> None:
    operator.snapshot_state(checkpoint_id, 0)
    operator.notify_checkpoint_complete(checkpoint_id)


def visible(path: Path) -> list[str]:
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file() and file.name[0] != ".")


def hidden(path: Path) -> list[str]:
    return sorted(file.name for file in path.rglob(".*"))


def test_files_are_hidden_until_the_end(tmp_path: Path) -> None:
    operator = running(builder(tmp_path / "out").build(), subtask=3)
    operator.process(Batch(["a", "b"]))
    operator.end_epoch()
    (name,) = hidden(tmp_path)
    assert re.fullmatch(rf"\.part-{UUID}-3-0\.inprogress\.{UUID}", name)
    assert visible(tmp_path) == []
    lines = StreamFormat.text_line_format()
    assert read_all(FileSource.for_record_stream_format(lines, str(tmp_path)).build()) == []
    operator.process(Batch(["c"]))
    operator.finish()
    assert visible(tmp_path) == []
    complete(operator, 1)
    operator.close()
    (name,) = visible(tmp_path / "out")
    assert re.fullmatch(rf"part-{UUID}-3-0", name)
    assert read_all(FileSource.for_record_stream_format(lines, str(tmp_path)).build()) == ["a", "b", "c"]
    assert hidden(tmp_path) == []


def test_nothing_is_shown_after_a_failure(tmp_path: Path) -> None:
    operator = running(builder(tmp_path).build())
    operator.process(Batch(["a"]))
    operator.close()
    assert visible(tmp_path) == []
    assert len(hidden(tmp_path)) == 1


def test_no_records_no_files(tmp_path: Path) -> None:
    operator = running(builder(tmp_path / "out").build())
    assert operator.next_due() is None
    end(operator)
    operator.close()
    assert not (tmp_path / "out").exists()


def test_rolling_by_size(tmp_path: Path) -> None:
    policy = RollingPolicy.default_rolling_policy(part_size=5)
    names = OutputFileConfig.builder().with_part_prefix("orders").with_part_suffix(".txt").build()
    sink = builder(tmp_path).with_rolling_policy(policy).with_output_file_config(names).build()
    operator = running(sink)
    operator.process(Batch(["aa", "bb", "cc", "d" * 20, "e"]))  # 3 bytes each, so two of them exceed 5
    operator.process(Batch(["ff"]))
    end(operator)
    files = {re.sub(UUID, "UID", name): (tmp_path / name).read_text() for name in visible(tmp_path)}
    assert files == {
        "orders-UID-0-0.txt": "aa\nbb\n",
        "orders-UID-0-1.txt": f"cc\n{'d' * 20}\n",
        "orders-UID-0-2.txt": "e\nff\n",
    }


def test_rolling_by_age_and_inactivity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(file_sink_operator.time, "time", lambda: now[0])
    policy = RollingPolicy.default_rolling_policy(rollover_interval=10_000, inactivity_interval=4_000)
    operator = opened_sink(builder(tmp_path).with_rolling_policy(policy).with_bucket_check_interval(1000).build())
    operator.process(Batch(["a"]))
    assert operator.next_due() == 1004.0
    for now[0] in (1003.0, 1006.0, 1009.0):
        operator.process(Batch(["b"]))
        operator.end_epoch()
    assert visible(tmp_path) == []
    assert operator.next_due() == 1010.0
    now[0] = 1010.0
    operator.end_epoch()
    assert visible(tmp_path) == []
    complete(operator, 1)
    assert len(visible(tmp_path)) == 1
    assert operator.next_due() is None
    operator.process(Batch(["c"]))
    assert operator.next_due() == 1014.0
    complete(operator, 2)
    assert len(visible(tmp_path)) == 1, "it goes on"
    now[0] = 1014.0
    operator.end_epoch()
    complete(operator, 3)
    assert len(visible(tmp_path)) == 2
    operator.close()


def opened_sink(sink: FileSink) -> Any:
    operator: Any = sink.create_operator(None)
    opened(operator)
    return operator


def test_rolling_on_checkpoints_waits_for_the_end_without_them(tmp_path: Path) -> None:
    operator = running(builder(tmp_path).with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build())
    operator.process(Batch(["a"]))
    assert operator.next_due() is None
    end(operator)
    assert len(visible(tmp_path)) == 1


def test_buckets_by_date_and_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = datetime.datetime(2024, 2, 29, 23, 5, 6, 70_000, tzinfo=datetime.timezone.utc).timestamp()
    millis = int(moment * 1000)

    def bucket(*arguments: Any) -> str | None:
        return BucketAssigner.date_time_bucket_assigner(*arguments).bucket_at(millis)

    assert bucket("yyyy-MM-dd--HH", "UTC") == "2024-02-29--23"
    assert bucket("yyyy-MM-dd--HH", "Europe/Berlin") == "2024-03-01--00"
    assert bucket("'dt='yyyyMMdd/HH'h''s'mm:ss.SSS%", "GMT-08:00") == "dt=20240229/15h's05:06.070%"
    assert bucket() == datetime.datetime.fromtimestamp(moment).strftime("%Y-%m-%d--%H")
    monkeypatch.setattr(file_sink_operator.time, "time", lambda: moment)
    row_format = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    assigner = BucketAssigner.date_time_bucket_assigner("yyyy/MM", "UTC")
    operator = opened_sink(row_format.with_bucket_assigner(assigner).build())
    operator.process(Batch(["a"]))
    end(operator)
    assert [Path(name).parent.as_posix() for name in visible(tmp_path)] == ["2024/02"]
    for bad in ("yyyy-EEE", "yyyy'"):
        with pytest.raises(ValueError, match="date_time_bucket_assigner"):
            BucketAssigner.date_time_bucket_assigner(bad)
    with pytest.raises(ValueError, match="unknown time zone 'Mars/Olympus'"):
        BucketAssigner.date_time_bucket_assigner("yyyy", "Mars/Olympus")


class ByFirst(BucketAssigner):
    def get_bucket_id(self, element: Any, context: Any) -> str:
        assert abs(context.current_processing_time() - time.time() * 1000) < 60_000
        return f"{element[0]}-{context.timestamp()}-{context.current_watermark()}"


def test_buckets_of_ones_own(tmp_path: Path) -> None:
    operator = opened_sink(builder(tmp_path).with_bucket_assigner(ByFirst()).build())
    operator.process_watermark(7)
    operator.process(Batch(["ab", "ba", "ac"], [1, 2, 1]))
    end(operator)
    contents = {Path(name).parent.name: (tmp_path / name).read_text() for name in visible(tmp_path)}
    assert contents == {"a-1-7": "ab\nac\n", "b-2-7": "ba\n"}
    with pytest.raises(UserCodeError, match=r"a bucket id must be a path below.*(?s:.*)Record at fault: '/x'"):
        operator.process(Batch(["/x"]))


def test_encoders(tmp_path: Path) -> None:
    pair = Types.TUPLE([Types.STRING(), Types.BOOLEAN()])
    operator = running(builder(tmp_path / "typed").build(), pair)
    operator.process(Batch([("a", True)]))
    end(operator)
    (name,) = visible(tmp_path / "typed")
    assert (tmp_path / "typed" / name).read_text() == "(a,true)\n"
    raw = FileSink.for_row_format(str(tmp_path / "own"), Encoder(lambda row: b"<" + row.name.encode() + b">"))
    operator = opened_sink(raw.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build())
    operator.process(Batch([Row(name="a"), Row(name="b")]))
    end(operator)
    (name,) = visible(tmp_path / "own")
    assert (tmp_path / "own" / name).read_text() == "<a><b>"
    with pytest.raises(UserCodeError, match=r"Operator 'op'(?s:.*)Record at fault: 5"):
        operator.process(Batch([5]))


def test_streaming_file_sink(tmp_path: Path) -> None:
    for expected in (["part-2-0"], ["part-2-0", "part-2-1"]):  # a second run does not overwrite the first
        row_format = StreamingFileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
        sink = row_format.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
        operator = sink.create_operator(None)
        opened(operator, subtask=2, parallelism=4)
        operator.process(Batch(["a", "b"]))
        assert len(hidden(tmp_path)) == 1
        end(operator)
        operator.close()
        assert visible(tmp_path) == expected
        assert hidden(tmp_path) == []
        assert (tmp_path / expected[-1]).read_text() == "a\nb\n"


def test_a_url_of_fsspec() -> None:
    import fsspec

    sink = FileSink.for_row_format("memory://flintstream-sink/out", Encoder.simple_string_encoder())
    operator = opened_sink(sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build())
    operator.process(Batch(["a"]))
    end(operator)
    (path,) = fsspec.filesystem("memory").find("/flintstream-sink/out")
    assert re.search(rf"/part-{UUID}-0-0$", path)


def test_what_is_refused(tmp_path: Path) -> None:
    for sink in (FileSink, StreamingFileSink):
        with pytest.raises(TypeError, match="for_bulk_format: expected a BulkWriterFactory, got None"):
            sink.for_bulk_format(str(tmp_path), None)  # type: ignore[attr-defined]
        with pytest.raises(TypeError, match=r"for_bulk_format: BulkWriterFactory does not define create"):
            sink.for_bulk_format(str(tmp_path), BulkWriterFactory())  # type: ignore[attr-defined]
    assert builder(tmp_path).build().get_transformer() is None
    for call in (
        lambda: FileSink.for_row_format(str(tmp_path), "x"),  # type: ignore[arg-type]
        lambda: builder(tmp_path).with_rolling_policy("x"),
        lambda: builder(tmp_path).with_bucket_assigner("x"),
        lambda: builder(tmp_path).with_output_file_config("x"),
        lambda: builder(tmp_path).with_bucket_check_interval(0),
        lambda: RollingPolicy.default_rolling_policy(part_size=0),
        lambda: OutputFileConfig(".hidden", ""),
        lambda: OutputFileConfig("a/b", ""),
    ):
        with pytest.raises((TypeError, ValueError)):
            call()
    with pytest.raises(NotImplementedError, match="JVM"):
        RollingPolicy.on_checkpoint_rolling_policy().get_java_object()


def write_text(path: Path, mode: WriteMode, parallelism: int, subtask: int, values: list[Any]) -> None:
    operator = TextFileSink(path, mode).create_operator(Types.BOOLEAN())
    opened(operator, subtask, parallelism)
    operator.process(Batch(values))
    operator.finish()
    operator.close()


def test_text_file_sink_one_file(tmp_path: Path) -> None:
    path = tmp_path / "below" / "out.txt"
    write_text(path, WriteMode.NO_OVERWRITE, 1, 0, [True, False])
    assert path.read_text() == "true\nfalse\n"
    with pytest.raises(FileExistsError, match=r"out\.txt exists already and is not overwritten.*WriteMode\.OVERWRITE"):
        write_text(path, WriteMode.NO_OVERWRITE, 1, 0, [])
    write_text(path, WriteMode.OVERWRITE, 1, 0, [False])
    assert path.read_text() == "false\n"
    with pytest.raises(FileExistsError, match="below"):
        write_text(path.parent, WriteMode.NO_OVERWRITE, 1, 0, [])
    write_text(path.parent, WriteMode.OVERWRITE, 1, 0, [True])
    assert path.parent.read_text() == "true\n"


def test_text_file_sink_a_directory(tmp_path: Path) -> None:
    path = tmp_path / "out"
    for subtask in range(3):
        write_text(path, WriteMode.NO_OVERWRITE, 3, subtask, [True])
    assert visible(path) == ["1", "2", "3"]
    with pytest.raises(FileExistsError, match="out/1 exists already"):
        write_text(path, WriteMode.NO_OVERWRITE, 3, 0, [])
    for subtask in range(2):
        write_text(path, WriteMode.OVERWRITE, 2, subtask, [False])
    assert visible(path) == ["1", "2"]  # what the third subtask had left is gone
    file = tmp_path / "file"
    file.write_text("old")
    write_text(file, WriteMode.OVERWRITE, 2, 1, [True])
    assert visible(file) == ["2"]
    with pytest.raises(TypeError, match="WriteMode"):
        TextFileSink(path, "overwrite")  # type: ignore[arg-type]
