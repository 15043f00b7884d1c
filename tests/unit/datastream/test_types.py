"""What checkers know of streams, functions and states; and that classes with parameters are the same classes at run time."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

import flintstream
from flintstream.common import Types
from flintstream.datastream import (
    DataStream,
    KeyedProcessFunction,
    KeyedStream,
    MapFunction,
    OutputTag,
    SideOutput,
    StreamExecutionEnvironment,
)
from flintstream.datastream.functions import AggregateFunction, ProcessWindowFunction, SinkFunction, SourceFunction
from flintstream.datastream.state import ListState, MapStateDescriptor, ValueState, ValueStateDescriptor

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "guide" / "types.md"


def mypy(*files: Path) -> str:
    """What mypy says with the project's own settings, which are strict."""
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--no-error-summary", *map(str, files)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280).stdout


def test_what_is_known_at_each_step_and_what_is_refused(tmp_path):
    page = tmp_path / "types_page.py"
    page.write_text("\n".join(re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)))
    # This one shows that the check can fail.
    wrong = tmp_path / "wrong_types.py"
    wrong.write_text(
        "from flintstream.datastream import StreamExecutionEnvironment\n"
        "StreamExecutionEnvironment.get_execution_environment().from_collection([1]).map(str.upper)\n"
    )
    (complaint,) = mypy(Path(__file__).with_name("typed_program.py"), page, wrong).splitlines()
    # Only the name: the path is that of the run which filled mypy's cache.
    assert 'wrong_types.py:2: error: Argument 1 to "map"' in complaint and "[arg-type]" in complaint


def test_the_package_says_that_it_is_typed():
    assert (Path(flintstream.__file__).parent / "py.typed").exists()
    assert 'flintstream = ["py.typed"]' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


class Double(MapFunction[int, int]):
    def map(self, value: int) -> int:
        return value * 2


class Bare(MapFunction):
    def map(self, value):
        return value


@pytest.mark.parametrize("function", [Double(), Bare()])
def test_a_function_with_parameters_is_the_same_class(function):
    copied = pickle.loads(pickle.dumps(function))
    assert isinstance(copied, MapFunction)
    assert copied.map(3) == function.map(3)


@pytest.mark.parametrize(
    "kind",
    [
        DataStream[int],
        KeyedStream[int, str],
        ValueState[int],
        ListState[int],
        OutputTag[str],
        SideOutput[str],
        ValueStateDescriptor[int],
        MapStateDescriptor[str, int],
        KeyedProcessFunction[str, int, int],
        KeyedProcessFunction.Context[str],
        AggregateFunction[int, int, float],
        ProcessWindowFunction.Context[int],
        SourceFunction[int],
        SinkFunction[int],
    ],
    ids=str,
)
def test_parameters_can_be_given_at_run_time(kind):
    assert kind.__args__


def test_instances_made_with_parameters_are_equal_to_those_made_without():
    tag = OutputTag[str]("late", Types.STRING())
    assert tag == OutputTag("late") and pickle.loads(pickle.dumps(tag)) == tag
    descriptor = pickle.loads(pickle.dumps(ValueStateDescriptor[int]("count", Types.LONG())))
    assert (descriptor.name, descriptor.type_info) == ("count", Types.LONG())
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    assert isinstance(stream, DataStream) and isinstance(stream.key_by(str), KeyedStream)
