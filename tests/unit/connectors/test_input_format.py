"""Input formats: those written in Python, and those of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flintstream.common import Types
from flintstream.common.io import InputFormat
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.base import SourceError
from flintstream.datastream.connectors.file_system import StreamFormat
from flintstream.datastream.connectors.input_format import FileInputFormat, InputFormatSource
from flintstream.datastream.formats.json import JsonLinesFormat
from flintstream.runtime.operators.sinks import CollectOperator
from flintstream.testing import LocalJob

from .reading import check_resume, read_all, splits_of


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment.get_execution_environment()


class Counting(InputFormat):
    """Numbers below a limit, without those that end in 5; a split counts by its number of subtasks."""

    def __init__(self, limit: int = 20) -> None:
        self.limit = limit
        self.opened: list[Any] = []

    def create_input_splits(self, min_num_splits):
        return [(start, min_num_splits) for start in range(min_num_splits)]

    def open(self, split):
        self.opened.append(split)
        self.next, self.step = split

    def reached_end(self):
        return self.next >= self.limit

    def next_record(self):
        record, self.next = self.next, self.next + self.step
        return None if record % 10 == 5 else record

    def close(self):
        self.opened.append("closed")


class Resuming(Counting):
    """Goes on where it was, without reading again."""

    def get_current_state(self):
        return self.next

    def reopen(self, split, state):
        self.opened.append("reopened")
        self.next, self.step = state, split[1]


def test_records_of_all_splits_and_none_left_out():
    made = Counting()
    assert read_all(InputFormatSource(made), 3) == [0, 3, 6, 9, 12, 18, *range(1, 20, 3), 2, 8, 11, 14, 17]
    assert made.opened == [(0, 3), "closed", (1, 3), "closed", (2, 3), "closed"]


@pytest.mark.parametrize("kind", [Counting, Resuming])
def test_resume_from_every_position(kind):
    source = InputFormatSource(kind(40))
    split = splits_of(source, 1)[0]
    # Positions behind records that are left out are none of their own.
    check_resume(source, split, [number for number in range(40) if number % 10 != 5])
    assert ("reopened" in source._format.opened) == (kind is Resuming)


def test_a_whole_job(env):
    stream = env.create_input(Counting(30), Types.LONG()).set_parallelism(2)
    stream._sink("collect", CollectOperator("all"))
    job = LocalJob(env.generate_stream_graph(), records_per_epoch=4).run()
    assert sorted(job.collected["all"]) == [number for number in range(30) if number % 10 != 5]


def test_failures_name_format_split_and_place():
    class Failing(Counting):
        def next_record(self):
            if self.next == 3:
                raise ValueError("no three")
            return super().next_record()

        def create_input_splits(self, min_num_splits):
            return super().create_input_splits(min_num_splits) if min_num_splits else 1 // 0

    source = InputFormatSource(Failing())
    with pytest.raises(SourceError, match=r"Failing, split \(0, 1\), after 3 records: ValueError\('no three'\)"):
        read_all(source, 1)
    with pytest.raises(SourceError, match=r"Failing.create_input_splits\(0\) failed: ZeroDivisionError"):
        splits_of(source, 0)
    with pytest.raises(SourceError, match="it has 20 records, but 25 were read from it before"):
        InputFormatSource(Counting()).create_reader(splits_of(InputFormatSource(Counting()), 1)[0], (25, None)).read(1)


def test_a_state_without_reopen_is_refused():
    class Half(Counting):
        def get_current_state(self):
            return self.next

    source = InputFormatSource(Half())
    with pytest.raises(SourceError, match=r"Half defines get_current_state, but not reopen"):
        source.create_reader(splits_of(source, 1)[0], (3, 3)).read(1)


def test_files(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"x": 1}\n{"x": 2}\n')
    made: FileInputFormat[Any] = FileInputFormat(str(tmp_path), JsonLinesFormat())
    assert read_all(made.as_source()) == [{"x": 1}, {"x": 2}]
    # It is an input format like any other, too.
    assert read_all(InputFormatSource(made)) == [{"x": 1}, {"x": 2}]
    lines: FileInputFormat[str] = FileInputFormat(str(tmp_path), StreamFormat.text_line_format())
    assert env.create_input(lines).get_type() == Types.STRING()
    with pytest.raises(TypeError, match="FileInputFormat: expected a BulkFormat or a StreamFormat"):
        FileInputFormat(str(tmp_path), "csv")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"create_input: expected an InputFormat, .*FileInputFormat\(path, format\)"):
        env.create_input(JsonLinesFormat())  # type: ignore[arg-type]
