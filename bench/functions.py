"""The user code that all sides run. No imports: other interpreters load this too."""

from __future__ import annotations

KEYS = 10_000
MANY_KEYS = 1_000_000
STRIDE = 7919
"""Has no common factor with KEYS or MANY_KEYS: each run of so many numbers holds each key once, in no obvious order."""

Pair = tuple[int, int]


def to_pair(number: int) -> Pair:
    """The key of a number, and a one to count."""
    return number * STRIDE % KEYS, 1


def to_one_of_many(number: int) -> Pair:
    """As `to_pair`, with MANY_KEYS."""
    return number * STRIDE % MANY_KEYS, 1


def key_of(pair: Pair) -> int:
    """What the stream is keyed by."""
    return pair[0]


def add(left: Pair, right: Pair) -> Pair:
    """The reduce function of the running count."""
    return left[0], left[1] + right[1]


class IsCount:
    """The filter behind the running count: lets the last count of each key through, to be checked."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, pair: Pair) -> bool:
        return pair[1] == self.count


class IsSomeCount(IsCount):
    """As IsCount, for one key of a thousand: collecting a million results would be a part of what is measured."""

    def __call__(self, pair: Pair) -> bool:
        return pair[1] == self.count and pair[0] % 1000 == 0


def add_one(number: int) -> int:
    """First step of the chain."""
    return number + 1


def not_third(number: int) -> bool:
    """Second step of the chain: two of three pass."""
    return number % 3 != 0


def double(number: int) -> int:
    """Third step of the chain."""
    return number * 2


def minus_seven(number: int) -> int:
    """Fourth step of the chain."""
    return number - 7


def is_rare(number: int) -> bool:
    """Fifth step of the chain: few pass, so that what is measured is the chain and not the sink."""
    return number % 100_003 == 0


WINDOW_MILLIS = 3_600_000
SLIDE_MILLIS = 300_000
WINDOW_RECORDS = 960_000
"""How many records fall into an hour: eight for each key in five minutes."""


def hour_of(number: int) -> int:
    """The timestamp of a number, in milliseconds."""
    return number * 15 // 4


class CountRecords:
    """Counts, as an aggregate function does."""

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Pair, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, accumulator: int, other: int) -> int:
        return accumulator + other


HOT_KEYS = 10_000
"""One in a hundred of MANY_KEYS."""


def to_mostly_hot(number: int) -> Pair:
    """Each of MANY_KEYS once, then again and again the same few."""
    return (number if number < MANY_KEYS else number * STRIDE % HOT_KEYS), 1


MOST_KEYS = 5_000_000


def to_one_of_most(number: int) -> Pair:
    """As `to_pair`, with MOST_KEYS."""
    return number * STRIDE % MOST_KEYS, 1


PATTERN_MILLIS = 10_000
"""The window of the pattern."""

Event = tuple[int, int, int]
"""A key, what happened (0 begins a match, 1 to 49 do not), and a number."""


def to_event(number: int) -> Event:
    """One in fifty begins a match; the next event of its key is half of the times the one that completes it."""
    return number * STRIDE % KEYS, number * 2_654_435_761 % 1_000_003 % 50, number


def to_event_of_many(number: int) -> Event:
    """As `to_event`, with MANY_KEYS."""
    return number * STRIDE % MANY_KEYS, number * 2_654_435_761 % 1_000_003 % 50, number


def user_of(event: Event) -> int:
    """What the events are keyed by."""
    return event[0]


def moment_of(number: int) -> int:
    """The timestamp of an event, in milliseconds: an event of a key each second."""
    return number // 10


def is_a(event: Event) -> bool:
    """The condition of the first stage."""
    return event[1] == 0


def is_b(event: Event) -> bool:
    """The condition of the second stage."""
    return event[1] >= 25
