"""The examples of patterns, each beside one with state and timers by hand where there is one."""

from __future__ import annotations


def test_failed_logins(run):
    alarms = run("cep_failed_logins")
    assert sorted(alarms) == sorted(run("failed_logins"))
    assert len(alarms) == 3


def test_unpaid_orders(run):
    assert sorted(run("cep_unpaid_orders")) == [
        "not paid within 15 minutes> order 3, given up in minute 18",
        "not paid within 15 minutes> order 4, given up in minute 25",
        "paid> order 1, after 14 minutes",
        "paid> order 2, after 7 minutes",
        "paid> order 5, after 0 minutes",
    ]


def test_order_brushing(run):
    assert (
        run("order_brushing")
        == run("cep_order_brushing")
        == [
            "ann: 3 orders from minute 0 to 45",
            "dan: 3 orders from minute 61 to 63",
        ]
    )


def test_card_fraud(run):
    assert run("cep_card_fraud") == [
        "suspicious> red: 501.0 at second 20",
        "suspicious> blue: 650.0 at second 179",
    ]


def test_rising_temperature(run):
    assert run("cep_rising_temperature") == ["oven: from 20.0 to 65.0 in 6 seconds"]
