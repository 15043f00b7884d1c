"""The picture of throughput and latency: what is in it, where bars end, and that it is up to date."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree

import pytest
from bench.picture import BARS_FROM, BARS_TO, PICTURE, PUBLISHED, Scale, main, picture
from bench.report import Result, Row, as_json
from click.testing import CliRunner

MACHINE = {
    "time": "2026-11-18T15:15:36+00:00",
    "cores": 2,
    "processor": "x86_64",
    "python": "3.11.4",
    "pyspark": "4.3.0",
    "load_before": 0.25,
}
OURS = Row("Flintstream, process function with ValueState", 1_161_234.5)
MEDIAN = Row("pipelined, 1 exchange, median", 6.04, "ms", most=10)


def drawn(*results):
    return picture(as_json(list(results), MACHINE))


def counts(*rows):
    return Result("keyed_count", "a count", [OURS, *rows])


def texts(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_the_picture_in_the_repository_is_drawn_from_the_published_numbers():
    drawn = picture(json.loads(PUBLISHED.read_text(encoding="utf-8")))
    assert PICTURE.read_text(encoding="utf-8") == drawn, "run `make picture`"
    assert "\n\n" not in drawn  # Markdown would end it there.


def test_throughputs_stand_in_their_order_with_three_digits():
    svg = drawn(counts(Row("PyFlink, process mode", 2070.4), Row("Bytewax, one worker", 270_000.0)))
    shown = texts(svg)
    sides = ["Flintstream", "1,160,000", "Bytewax, one worker", "270,000", "PyFlink, process mode", "2,070"]
    assert [text for text in shown if text in sides] == sides
    assert "Latency" not in shown


def test_latencies_stand_in_their_order():
    rows = [
        MEDIAN,
        Row("pipelined, 1 exchange, 99 of 100 below", 60.0, "ms"),
        Row("epochs, 1 exchange, median", 400.4, "ms"),
    ]
    shown = texts(drawn(Result("latency", "latencies", rows)))
    sides = ["Flintstream, pipelined", "6.0 ms", "Flintstream, epochs", "400 ms"]
    assert [text for text in shown if text in sides] == sides
    assert "60.0 ms" not in shown


def test_what_was_not_measured_is_left_out():
    svg = drawn(counts(Row("PyFlink", None, note="not run"), Row("Bytewax", None, note="not run")))
    assert "PyFlink" not in svg
    assert "Bytewax" not in svg


def test_rows_without_a_place_in_the_picture_are_left_out():
    assert drawn(counts(Row("Flintstream, reduce", 2e6))) == drawn(counts())


def test_other_benchmarks_and_a_run_without_ours_are_nothing_to_show():
    with pytest.raises(ValueError, match="numbers of neither keyed_count nor latency"):
        drawn(
            Result("cep", "patterns", [OURS]),
            Result("latency", "latencies", [Row("PyFlink, bundles of 10 ms, median", 1)]),
        )


def test_it_says_when_and_where():
    data = as_json([counts(Row("Bytewax, one worker", 1e5, note="an earlier run"))], MACHINE | {"note": "Two runs"})
    lines = texts(picture(data))
    assert lines[-3] == "2026-11-18: 2 cores (x86_64), Python 3.11.4, Spark 4.3.0, load 0.25 before."
    assert lines[-2:] == ["Two runs.", "* an earlier run."]
    assert "100,000*" in lines


def test_it_is_described_for_those_who_do_not_see_it():
    described = ElementTree.fromstring(drawn(Result("latency", "latencies", [MEDIAN]))).find(
        "{http://www.w3.org/2000/svg}desc"
    )
    assert "Flintstream, pipelined: 6.0 ms." in described.text


def test_names_cannot_break_the_file():
    svg = picture(as_json([counts(Row("Bytewax, one worker", 1e5, note="<&>"))], MACHINE))
    assert "* <&>." in texts(svg)


def test_a_scale_is_logarithmic_if_ratios_are_large():
    scale = Scale.of([22_900, 3_754_000])
    assert scale.marks() == [1e4, 1e5, 1e6, 1e7]
    assert [scale.place(value) for value in (1e4, 1e7)] == [BARS_FROM, BARS_TO]
    assert scale.place(1e6) - scale.place(1e5) == pytest.approx((BARS_TO - BARS_FROM) / 3, abs=0.1)


def test_a_scale_is_linear_if_they_are_small():
    scale = Scale.of([10, 40])
    assert scale.marks() == []
    assert [scale.place(value) for value in (10, 40)] == [BARS_FROM + (BARS_TO - BARS_FROM) / 4, BARS_TO]


def test_the_least_power_of_ten_has_a_bar_too():
    assert Scale.of([1000, 50_000]).place(1000) > BARS_FROM


def test_the_command(tmp_path):
    source, target = tmp_path / "latest.json", tmp_path / "new" / "speed.svg"
    source.write_text(json.dumps(as_json([counts()], MACHINE)))
    result = CliRunner().invoke(main, [str(source), str(target)])
    assert (result.exit_code, target.read_text()) == (0, drawn(counts()))


@pytest.mark.parametrize("text", ["{}", "nothing", '{"machine": {}, "results": []}'])
def test_the_command_names_the_file_that_it_cannot_draw(tmp_path, text):
    source = tmp_path / "latest.json"
    source.write_text(text)
    result = CliRunner().invoke(main, [str(source), str(tmp_path / "speed.svg")])
    assert result.exit_code == 1
    assert "latest.json" in result.output
