"""Every program of `examples/` runs, and gives what it promises."""

from __future__ import annotations

import runpy
import socket
import threading
from pathlib import Path

import pytest

from flintstream.testing import OneInputOperatorHarness, TwoInputOperatorHarness

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name):
    """The names that an example defines, without running it."""
    return runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name=name)


def test_every_example_has_a_test():
    tests = "".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    programs = [path.stem for path in EXAMPLES.glob("*.py") if not path.name.startswith("_")]
    assert [name for name in programs if f'run("{name}"' not in tests] == []


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


def test_halving_numbers(run):
    lines = [line.partition("> ")[2] for line in run("halving_numbers")]
    expected = []
    for number in range(9, 100, 9):
        now, rounds = number // 2, 1
        while now >= 10:
            now, rounds = now // 2, rounds + 1
        expected.append(f"{number} → {now} in {rounds}")
    assert sorted(lines) == sorted(expected)


def test_connected_components(run):
    assert run("connected_components") == [
        "227 vertices in 70 components, the largest of 17",
        "as a plain program finds them: True",
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


def test_queryable_state(run):
    assert run("queryable_state") == [
        "tea: 8 cake: 5",
        "last order of tea: ('tea', 1)",
        "not changed: the state was queried, and is read-only",
        "soup: 3",
    ]


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


def test_keyed_state(run):
    assert sorted(run("keyed_state")) == sorted(
        [
            "value> (1,4)",
            "value> (1,5)",
            "list> (1,5.0)",
            "list> (2,4.0)",
            "map> (1,5.0)",
            "map> (2,4.0)",
            "reducing> (1,3.0)",
            "reducing> (1,4.0)",
            "reducing> (1,5.0)",
            "reducing> (2,4.0)",
            "reducing> (2,3.0)",
            "reducing> (2,4.0)",
            "aggregating> (1,Contains-3.0)",
            "aggregating> (1,Contains-3.0-5.0)",
            "aggregating> (1,Contains-3.0-5.0-7.0)",
            "aggregating> (2,Contains-4.0)",
            "aggregating> (2,Contains-4.0-2.0)",
            "aggregating> (2,Contains-4.0-2.0-6.0)",
            "map_with_state> (1,0.0)",
            "map_with_state> (1,3.0)",
            "map_with_state> (1,8.0)",
            "map_with_state> (2,0.0)",
            "map_with_state> (2,4.0)",
            "map_with_state> (2,6.0)",
        ]
    )


def test_buffering_sink(run):
    assert run("buffering_sink") == ["spark: 3, hadoop: 5", "hive: 7, flume: 9", "kafka: 11"]


def test_buffering_sink_keeps_what_it_has_gathered(tmp_path):
    """A checkpoint holds the records that are not written yet; who goes on from it writes them."""
    sink = example("buffering_sink")["BufferingSink"]
    before, after = tmp_path / "before.txt", tmp_path / "after.txt"
    with OneInputOperatorHarness(sink(str(before), 2)) as harness:
        harness.process_elements([("spark", 3), ("hadoop", 5), ("hive", 7)])
        kept = harness.snapshot()
    assert before.read_text() == "spark: 3, hadoop: 5\n"
    going_on = OneInputOperatorHarness(sink(str(after), 2))
    going_on.restore(kept)
    with going_on:
        going_on.process_element(("flume", 9))
    assert after.read_text() == "hive: 7, flume: 9\n"


def test_counter_source(run):
    assert run("counter_source") == [
        *(f"from the start> {number}" for number in range(5)),
        *(f"going on> {number}" for number in range(5, 8)),
    ]


def test_broadcast_rules(run):
    lines = [line.partition("> ")[2] for line in run("broadcast_rules")]
    assert [line for line in lines if line.startswith("red")] == [
        "red: rectangle 10 - triangle 13",
        "red: rectangle 12 - triangle 13",
    ]
    assert [line for line in lines if line.startswith("blue")] == [
        "blue: circle 20 - circle 21",
        "blue: triangle 60 - rectangle 61",
        "blue: circle 21 - circle 62",
    ]
    assert len(lines) == 5


def test_rising_temperature(run):
    assert run("rising_temperature") == ["oven: rising for one second"]


def test_rising_temperature_by_a_clock_of_the_test():
    function = example("rising_temperature")["RisingForOneSecond"]()
    with OneInputOperatorHarness(function, key_selector=lambda reading: reading[0], processing_time=0) as harness:
        harness.process_elements([("oven", 20.0), ("oven", 21.0), ("fridge", 5.0), ("fridge", 6.0)])
        harness.set_processing_time(999)
        harness.process_element(("fridge", 5.5))
        assert harness.output == []
        harness.set_processing_time(1000)
        harness.process_element(("oven", 22.0))
        harness.set_processing_time(5000)
        assert harness.output == ["oven: rising for one second"]
        harness.process_elements([("oven", 21.0), ("oven", 22.0)])
        assert harness.processing_time_timers == [(6000, "oven")]


def test_failed_logins(run):
    assert run("failed_logins") == [
        "ann failed at seconds 1, 4 and 6",
        "bob failed at seconds 5, 8 and 9",
        "dan failed at seconds 25, 31 and 32",
    ]


def test_card_fraud(run):
    assert run("card_fraud") == [
        "suspicious> red: 501.0 at second 20",
        "suspicious> blue: 650.0 at second 180",
        "forgotten after a minute: 1",
    ]


def test_card_fraud_leaves_nothing_behind():
    program = example("card_fraud")
    with OneInputOperatorHarness(program["SmallThenLarge"](), key_selector=lambda payment: payment.card) as harness:
        harness.process_element(program["Payment"]("red", 0.5, 0), 0)
        assert harness.event_time_timers == [(60_000, "red")]
        harness.process_watermark(59_999)
        assert harness.keyed_state("small") == {"red": 0}
        harness.process_watermark(60_000)
        assert harness.keyed_state("small") == {}
        harness.process_element(program["Payment"]("red", 700.0, 59), 59_000)  # late
        assert harness.output == []
        assert harness.accumulators == {"forgotten": 1}


def test_unpaid_orders(run):
    assert sorted(run("unpaid_orders")) == [
        "not paid within 15 minutes> order 3, soup",
        "not paid within 15 minutes> order 4, rice",
        "paid> order 1, tea: paid after 15 minutes",
        "paid> order 2, cake: paid after 7 minutes",
        "paid> order 5, fish: paid after 0 minutes",
        "payment without an open order> minute 12, for order 9",
        "payment without an open order> minute 26, for order 4",
    ]


@pytest.mark.parametrize("first", ["orders", "payments"])
def test_unpaid_orders_whichever_stream_is_first(first):
    program = example("unpaid_orders")
    orders, payments = program["ORDERS"], program["PAYMENTS"]
    harness = TwoInputOperatorHarness(program["Match"](), lambda order: order.number, lambda payment: payment.order)
    with harness:
        if first == "orders":
            harness.process_elements1(orders, [order.minute * 60_000 for order in orders])
        harness.process_elements2(payments, [payment.minute * 60_000 for payment in payments])
        if first == "payments":
            harness.process_elements1(orders, [order.minute * 60_000 for order in orders])
        harness.end_input()
        assert len(harness.output) == 3
        assert sorted(harness.side_output("unpaid")) == ["order 3, soup", "order 4, rice"]
        assert sorted(harness.side_output("stray")) == ["minute 12, for order 9", "minute 26, for order 4"]


def test_order_payments(run):
    assert sorted(run("order_payments")) == [
        "paid in part> order 4, rice: 2 of 5 after 2 minutes",
        "paid in part> order 4, rice: 3 of 5 after 4 minutes",
        "paid> order 1, tea: 4 of 4 after 15 minutes",
        "paid> order 2, cake: 7 of 7 after 7 minutes",
    ]


def _serve(server, text):
    connection, _ = server.accept()
    with connection:
        connection.sendall(text)


def test_latency(run):
    *histogram, summary = run("latency", 2)
    counts = [
        int(word.replace(",", ""))
        for line in histogram
        for word in line.partition("ms")[2].split()
        if word[0].isdigit()
    ]
    assert sum(counts) == 1000
    assert summary.startswith("1,000 records: half within ")
