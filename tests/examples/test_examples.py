"""Every program of `examples/` runs, and gives what it promises."""

from __future__ import annotations

import re
import runpy
import socket
import sys
import threading
from pathlib import Path

import pytest

from flintstream.cli.demos import find_demos

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run(spark, capsys, monkeypatch):
    """Runs an example as a program, on the shared Spark; gives the lines that it prints."""

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return run


def test_every_example_has_a_test():
    here = Path(__file__).read_text()
    assert [path.stem for path in EXAMPLES.glob("*.py") if f'run("{path.stem}"' not in here] == []


def test_word_count_in_three_styles(run):
    lines = run("word_count")
    counts = [
        "(to,1)",
        "(be,1)",
        "(or,1)",
        "(not,1)",
        "(to,2)",
        "(be,2)",
        "(that,1)",
        "(is,1)",
        "(the,1)",
        "(question,1)",
    ]
    for style in ("functions", "objects", "state"):
        assert [line for line in lines if line.startswith(style)] == [f"{style}> {count}" for count in counts]
    last = {"to": 2, "be": 2, "or": 1, "not": 1, "that": 1, "is": 1, "the": 1, "question": 1}
    assert sorted(line for line in lines if line.startswith("batch")) == sorted(
        f"batch> ({word},{count})" for word, count in last.items()
    )


def test_odd_and_even_sums(run):
    lines = [line.partition("> ")[2] for line in run("odd_even_sums")]
    assert len(lines) == 10
    # The sums come as they grow; the numbers of a key, and so its sums, may come in either order of the subtasks.
    assert max(lines, key=lambda line: ("odd" in line, int(line[5:-1]) if "odd" in line else 0)) == "(odd,50)"
    assert "(even,60)" in lines


def test_side_outputs(run):
    assert sorted(run("side_outputs")) == [
        "check sensor> oven",
        "good> (freezer,-18)",
        "good> (fridge,4)",
        "good> (oven,180)",
        "unreadable> ???",
        "unreadable> fridge,cold",
    ]


def test_connected_streams(run):
    lines = [line.partition("> ")[2] for line in run("connected_streams")]
    assert sorted(lines) == ["cake: paid", "tea: 0.50 missing"]


def test_async_lookup(run):
    assert run("async_lookup") == [
        "0 tea 4.5",
        "1 cake 6.0",
        "2 soup 7.2",
        "398 soup 7.2",
        "400 caviar -1.0",
        "301 prices, in order: True",
    ]


def test_custom_partitioner(run):
    assert sorted(run("custom_partitioner")) == [
        "desk 1 takes 'data lost' (urgent)",
        "desk 1 takes 'site down' (urgent)",
        "desk 2 takes 'slow' (normal)",
        "desk 2 takes 'typo' (normal)",
        "desk 3 takes 'wish' (low)",
    ]


def test_rich_function(run):
    assert run("rich_function", "--least", "20") == ["seen: 1000", "lengths: {0: 339, 10: 331, 20: 330}"]


def test_source_function(run):
    lines = run("source_function")
    assert lines[-1] == "the job is CANCELED"
    degrees = [float(line.removeprefix("warmest so far: ")) for line in lines[:-1]]
    assert len(degrees) == 30
    assert degrees[0] == 20.0
    assert degrees == sorted(degrees)


def test_splittable_source(run):
    days = ["monday", "tuesday", "wednesday", "thursday", "friday"]
    assert run("splittable_source") == [f"{day}: 11 failures" for day in days]


def test_text_files(run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.txt").write_text("to be or not to be\nthat is the question\n")
    (tmp_path / "in" / "two.txt").write_text("Whether it is nobler in the mind\n")
    run("text_files", tmp_path / "in", tmp_path / "out")
    files = list((tmp_path / "out").glob("*.txt"))
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert sorted(lines) == ["2: be", "3: not", "4: mind", "6: nobler", "7: whether", "8: question"]


def test_spark_dataframes(run, tmp_path):
    (line,) = run("spark_dataframes", tmp_path / "out")
    alerts, _, _, cards, _ = line.split()
    assert int(alerts) > 100
    assert int(cards) == 50


def test_socket_word_count(run):
    with socket.create_server(("localhost", 0)) as server:
        threading.Thread(target=_serve, args=(server, b"to be or\nnot to be\n"), daemon=True).start()
        lines = run("socket_word_count", "localhost", server.getsockname()[1])
    assert sorted(line.partition("> ")[2] for line in lines) == [
        "(be,1)",
        "(be,2)",
        "(not,1)",
        "(or,1)",
        "(to,1)",
        "(to,2)",
    ]


def test_the_demonstration_counts_every_click(spark, capsys):
    program = runpy.run_path(str(find_demos()["page_views"].path), run_name="page_views")
    program["main"].__globals__["CLICKS"] = 20_000
    program["main"]()
    printed = capsys.readouterr().out
    assert re.search(r"all pages\s+20,000\s+100.0 %", printed)
    assert re.search(r"/shoes/red\s+1,\d\d\d\s", printed)
    assert "clicks a second" in printed


def _serve(server, text):
    connection, _ = server.accept()
    with connection:
        connection.sendall(text)
