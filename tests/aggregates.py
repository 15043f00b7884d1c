"""Aggregate functions that several tests use."""

from __future__ import annotations

from typing import Any

from flintstream.datastream import AggregateFunction


class Sum(AggregateFunction):
    """The sum of the records."""

    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class SumOfSecond(Sum):
    """The sum of the second fields of the records."""

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + value[1]


class Mean(AggregateFunction):
    """The mean of the records; the accumulator is changed in place."""

    def create_accumulator(self) -> Any:
        return [0, 0]

    def add(self, value: Any, accumulator: Any) -> Any:
        accumulator[0] += value
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]
