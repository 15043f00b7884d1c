"""FileSource with text lines: what a line is, splits, compression, positions, discovery."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import pickle
import random
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintstream.common import Duration, Types
from flintstream.datastream.connectors.base import SourceError
from flintstream.datastream.connectors.file_system import (
    FileEnumeratorProvider,
    FileSource,
    FileSplit,
    FileSplitAssignerProvider,
    LineFormat,
    StreamFormat,
)

from .reading import check_resume, drain, read_all, splits_of

LINES = ["one", "", "zwei ä€😀", "\u2028 not an end \x0b\x0c\x85", "five"]


def text_source(*paths: Any, charset: str = "UTF-8", split_size: int | None = None) -> FileSource:
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(charset), *map(str, paths))
    if split_size is not None:
        builder.set_split_size(split_size)
    return builder.build()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last_end", [True, False])
@pytest.mark.parametrize("charset", ["UTF-8", "UTF-16", "utf-8-sig"])
def test_lines(tmp_path: Path, end: str, last_end: bool, charset: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes((end.join(LINES) + (end if last_end else "")).encode(charset))
    source = text_source(path, charset=charset)
    assert source.produced_type == Types.STRING()
    for limit in (1, 2, 1000):
        assert read_all(source, limit=limit) == LINES
    (split,) = splits_of(source)
    assert split.split_id == str(path)
    check_resume(source, split, LINES)


class Zstandard:
    """The module that Python has not yet."""

    @staticmethod
    def compress(data: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()


COMPRESSED = [(".gz", gzip), (".bz2", bz2), (".xz", lzma), (".zst", Zstandard), (".deflate", zlib)]


@pytest.mark.parametrize(("extension", "module"), [*COMPRESSED, (".gzip", gzip), (".zstd", Zstandard)])
def test_compressed_files(tmp_path: Path, extension: str, module: Any) -> None:
    path = tmp_path / f"a{extension}"
    path.write_bytes(module.compress("\n".join(LINES).encode()))
    source = text_source(path, split_size=4)
    (split,) = splits_of(source)  # compressed files are never split
    assert read_all(source) == LINES
    check_resume(source, split, LINES)


@settings(max_examples=150, deadline=None)
@given(
    content=st.text(alphabet="ab\n\r\u00e4\u2028", max_size=60),
    size=st.integers(1, 20),
    limit=st.integers(1, 5),
    read_bytes=st.integers(1, 12),
)
def test_the_splits_of_a_file_give_each_line_once(
    tmp_path_factory: pytest.TempPathFactory, content: str, size: int, limit: int, read_bytes: int
) -> None:
    from flintstream.connectors.files import lines as file_lines

    path = tmp_path_factory.getbasetemp() / f"split-{os.getpid()}.txt"
    path.write_bytes(content.encode())
    before, file_lines._READ_BYTES = file_lines._READ_BYTES, read_bytes
    try:
        source = text_source(path, split_size=size)
        assert len(splits_of(source)) == max(1, -(-len(content.encode()) // size))
        expected = [line.decode() for line in content.encode().splitlines()]
        assert read_all(source, limit=limit) == expected
    finally:
        file_lines._READ_BYTES = before


def test_resume_in_every_split(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("".join(f"line {n}\n" for n in range(20)))
    source = text_source(path, split_size=50)
    splits = splits_of(source)
    assert len(splits) == 3
    assert [split.split_id for split in splits[:2]] == [str(path), f"{path}#50"]
    for split in splits:
        check_resume(source, split, drain(source.create_reader(split, None)))


def test_a_line_longer_than_any_buffer(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    long = "x" * 3_000_000
    path.write_text(f"{long}\nshort\n{long}")
    assert read_all(text_source(path)) == [long, "short", long]
    assert read_all(text_source(path, split_size=1_000_000)) == [long, "short", long]


def test_small_files_end_with_their_last_records(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a\nb\n")
    reader = text_source(path).create_reader(splits_of(text_source(path))[0], None)
    assert reader.read(10).values == ["a", "b"]
    assert reader.finished
    reader.close()


def test_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert read_all(text_source(tmp_path / "empty")) == []
    assert read_all(text_source(tmp_path)) == []


def test_invalid_encoding_names_file_and_offset(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\nb\xe4d\n")
    with pytest.raises(SourceError, match=r"a\.txt: invalid utf-8 at byte 6.*charset"):
        read_all(text_source(path))
    assert read_all(text_source(path, charset="latin-1")) == ["good", "b\u00e4d"]
    with pytest.raises(SourceError, match=r"a\.txt: invalid utf-16 after line 0"):
        read_all(text_source(path, charset="UTF-16"))


def test_directories_patterns_urls_and_hidden_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b/2.txt", "a.txt", "b/c/3.txt", ".hidden", "_SUCCESS", "_temporary/x", "b/.crc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    everything = ["a.txt", "b/2.txt", "b/c/3.txt"]
    assert read_all(text_source(tmp_path)) == everything
    assert read_all(text_source(tmp_path.as_uri())) == everything
    assert read_all(text_source(f"{tmp_path}/*.txt")) == ["a.txt"]
    assert read_all(text_source(f"{tmp_path}/*")) == everything
    assert read_all(text_source(f"{tmp_path}/**/*.txt")) == everything
    assert read_all(text_source(tmp_path / "b", tmp_path / "a.txt", tmp_path / "b" / "2.txt")) == [
        "b/2.txt",
        "b/c/3.txt",
        "a.txt",
    ]
    assert read_all(text_source(tmp_path / "_SUCCESS")) == ["_SUCCESS"]  # named by the user
    monkeypatch.chdir(tmp_path)
    relative = text_source("b")
    monkeypatch.chdir("/")
    assert read_all(relative) == everything[1:]


def test_a_url_of_fsspec() -> None:
    import fsspec

    with fsspec.open("memory://flintstream-test/in/a.txt", "wb") as file:
        file.write(b"a\nb\n")
    with fsspec.open("memory://flintstream-test/in/_no.txt", "wb") as file:
        file.write(b"c")
    source = text_source("memory://flintstream-test/in", split_size=2)
    assert len(splits_of(source)) == 2
    assert read_all(source) == ["a", "b"]


@pytest.mark.parametrize("name", ["missing.txt", "missing/*.txt"])
def test_a_path_need_not_be_there_before_the_job_starts(tmp_path: Path, name: str) -> None:
    source = text_source(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=str(tmp_path / name).replace("*", r"\*")):
        splits_of(source)
    (tmp_path / "missing").mkdir()
    (tmp_path / name.replace("*", "1")).write_text("a\n")
    assert read_all(source) == ["a"]


def test_watching_a_directory_reads_each_path_once(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("one\n" * 10)
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
        .monitor_continuously(Duration.of_millis(1500))
        .set_split_size(16)
        .build()
    )
    assert not source.bounded
    assert source.discovery_interval == 1.5
    first = list(source.discover(2, frozenset()))
    assert [split.split_id for split in first] == [str(tmp_path / "1"), *(f"{tmp_path}/1#{n}" for n in (16, 32))]
    (tmp_path / "1").write_text("one\n" * 100)  # what is appended is not seen
    (tmp_path / "2").write_text("two")
    second = list(source.discover(2, frozenset(split.split_id for split in first)))
    assert [split.content for split in second] == [FileSplit(str(tmp_path / "2"))]
    known = frozenset(split.split_id for split in first + second)
    assert list(source.discover(2, known)) == []


def test_a_static_file_set_is_the_default_and_can_be_asked_for(tmp_path: Path) -> None:
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
    assert builder.build().bounded
    builder.monitor_continuously(Duration.of_seconds(1)).process_static_file_set()
    builder.set_split_assigner(FileSplitAssignerProvider.locality_aware_split_assigner())
    assert builder.build().bounded


def test_the_enumerator_says_whether_files_are_split(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a\nb\n")
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path)).set_split_size(1)
    assert len(splits_of(builder.build())) == 4
    builder.set_file_enumerator(FileEnumeratorProvider.default_non_splittable_file_enumerator())
    assert len(splits_of(builder.build())) == 1
    builder.set_file_enumerator(FileEnumeratorProvider.default_splittable_file_enumerator())
    assert len(splits_of(builder.build())) == 4


def test_a_format_of_lines_written_by_a_user(tmp_path: Path) -> None:
    class Numbers(LineFormat):
        def decode(self, lines: list[str]) -> list[Any]:
            return [int(line) for line in lines if line]

    path = tmp_path / "a"
    path.write_text("1\n\n2\n")
    source = FileSource.for_record_stream_format(Numbers(), str(path)).build()
    assert read_all(source, limit=1) == [1, 2]
    path.write_text("1\nx\n")
    with pytest.raises(SourceError, match=r"a, byte 2: cannot read the line 'x': invalid literal"):
        read_all(source)


def test_the_source_can_be_sent_to_slots(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    assert read_all(pickle.loads(pickle.dumps(text_source(tmp_path)))) == ["a"]


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="StreamFormat"):
        FileSource.for_record_stream_format("lines", "x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="BulkFormat"):
        FileSource.for_bulk_file_format(StreamFormat.text_line_format(), "x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one path"):
        text_source()
    with pytest.raises(ValueError, match="unknown charset 'UTF-9'"):
        StreamFormat.text_line_format("UTF-9")
    with pytest.raises(ValueError, match="three slashes"):
        text_source("file://relative/path")
    (tmp_path / "a.lz4").touch()
    with pytest.raises(NotImplementedError, match=r"a\.lz4: files compressed as \.lz4 .*use \.bz2, \.deflate, "):
        read_all(text_source(tmp_path))


@pytest.mark.parametrize(("extension", "module"), COMPRESSED)
def test_a_compressed_file_that_is_cut_off_is_named(tmp_path, extension, module):
    path = tmp_path / f"lines{extension}"
    # Random, so that a part of the file is not the whole of it.
    whole = module.compress("\n".join(str(random.random()) for _ in range(20_000)).encode())
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match=f"{path} is truncated"):
        read_all(text_source(path))


@pytest.mark.parametrize(("extension", "module"), COMPRESSED)
def test_large_and_utf_16_files_are_decompressed_too(tmp_path, extension, module):
    text = "\n".join(f"{number} {random.random()}" for number in range(50_000))
    (tmp_path / f"a{extension}").write_bytes(module.compress(text.encode()))
    assert read_all(text_source(tmp_path / f"a{extension}")) == text.split("\n")
    (tmp_path / f"b{extension}").write_bytes(module.compress(text.encode("UTF-16")))
    wide = FileSource.for_record_stream_format(StreamFormat.text_line_format("UTF-16"), str(tmp_path / f"b{extension}"))
    assert read_all(wide.build()) == text.split("\n")


@pytest.mark.parametrize("extension", [".gz", ".bz2", ".xz", ".zst", ".deflate"])
def test_a_file_that_is_not_compressed_as_its_name_says_is_named(tmp_path, extension):
    path = tmp_path / f"lines{extension}"
    path.write_text("plain\n" * 100)
    with pytest.raises(SourceError, match=str(path)):
        read_all(text_source(path))
