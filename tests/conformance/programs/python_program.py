# compare: sorted
# A program as people write them: classes inside functions, one instance in two operators, decorators, slots, modules, archives.
import abc
import collections
import enum
import functools
import logging
import os
import re
import shutil
import tempfile
import zipfile
from dataclasses import dataclass, field
from typing import List, Optional

from flintstream.common import Types
from flintstream.datastream import (
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from flintstream.datastream.state import ValueStateDescriptor

logger = logging.getLogger(__name__)
WORD = re.compile(r"\w+")
TABLE = {"a": 1, "b": 2}
calls = collections.Counter()


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2

    @classmethod
    def of(cls, value):
        return cls.HIGH if value > 5 else cls.LOW


@dataclass
class Account:
    owner: str
    balance: float = 0.0
    history: List[float] = field(default_factory=list)
    level: Optional[Level] = None

    @property
    def count(self):
        return len(self.history)


class Slotted:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __repr__(self):
        return "Slotted(%r, %r)" % (self.x, self.y)


class Celsius(float):
    def __str__(self):
        return "%.1f C" % float(self)


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        logger.debug("called")
        return function(*args, **kwargs)

    return wrapper


@logged
def double(value):
    """Twice."""
    return value * 2


@functools.lru_cache(maxsize=None)
def cached(value):
    return value + 100


class Base(KeyedProcessFunction, abc.ABC):
    def open(self, runtime_context):
        self.account = runtime_context.get_state(ValueStateDescriptor("account", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx):
        account = self.account.value() or Account(value[0])
        self.apply(account, value[1])
        account.level = Level.of(account.balance)
        self.account.update(account)
        yield account

    @abc.abstractmethod
    def apply(self, account, amount): ...


class Deposit(Base):
    def apply(self, account, amount):
        account.balance += amount
        account.history.append(amount)


class Doubling(Deposit):
    def apply(self, account, amount):
        super().apply(account, amount * 2)


class Counting(MapFunction):
    def __init__(self):
        self.n = 0

    def map(self, value):
        self.n += 1
        calls[value] += 1
        return "%s %d %d" % (value, self.n, sum(calls.values()) > 0)


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "helper_of_mine.py"), "w") as file:
        file.write("def triple(v):\n    return v * 3\n")
    os.mkdir(os.path.join(folder, "package_of_mine"))
    with open(os.path.join(folder, "package_of_mine", "__init__.py"), "w") as file:
        file.write("from .inner import VALUE\n")
    with open(os.path.join(folder, "package_of_mine", "inner.py"), "w") as file:
        file.write("VALUE = 'inner'\n")
    with zipfile.ZipFile(os.path.join(folder, "data.zip"), "w") as archive:
        archive.writestr("lookup.txt", "from the archive")
    env.add_python_file(os.path.join(folder, "helper_of_mine.py"))
    env.add_python_file(folder)
    env.add_python_archive(os.path.join(folder, "data.zip"), "data")
    offset = 7

    class Local(FlatMapFunction):
        def flat_map(self, value):
            for _ in range(2):
                yield Slotted(value, value + offset)

    class Importing(ProcessFunction):
        def open(self, runtime_context):
            with open("data/lookup.txt") as file:
                self.text = file.read()

        def process_element(self, value, ctx):
            import helper_of_mine
            import package_of_mine

            yield helper_of_mine.triple(value), package_of_mine.VALUE, self.text

    def recursive(value):
        return 1 if value <= 1 else value * recursive(value - 1)

    numbers = env.from_collection([1, 2, 3], Types.INT())
    numbers.flat_map(Local()).print("local")
    numbers.process(Importing()).print("import")
    numbers.map(recursive).map(double).map(lambda v: cached(v)).print("functions")
    numbers.map(lambda v: Celsius(v)).print("float subclass")
    numbers.map(lambda v: Level.of(v * 2)).print("enum")
    numbers.map(lambda v: (Level.LOW, {v: Slotted(v, None)})).print("nested")
    one = Counting()
    numbers.map(one).print("one")
    numbers.filter(lambda v: v > 1).map(one).print("two")
    print(one.n, dict(calls))
    texts = env.from_collection(["a b", "b! a, a"])
    texts.flat_map(lambda s: WORD.findall(s)).map(lambda w: TABLE[w]).print("table")
    amounts = texts.flat_map(lambda s: [(w, len(s)) for w in WORD.findall(s)])
    amounts.key_by(lambda a: a[0]).process(Deposit()).map(lambda a: (a, a.count)).print("deposit")
    amounts.key_by(lambda a: a[0]).process(Doubling()).print("doubling")
    env.execute("main")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
