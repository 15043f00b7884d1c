"""Counts words in three styles: with functions, with function objects, and with state of one's own.

python examples/word_count.py
flint run -p 4 examples/word_count.py
"""

from flintstream.common import Types
from flintstream.datastream import (
    FlatMapFunction,
    KeyedProcessFunction,
    ReduceFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from flintstream.datastream.state import ValueStateDescriptor

LINES = ["to be or not to be", "that is the question"]
COUNT = Types.TUPLE([Types.STRING(), Types.INT()])


def with_functions(lines):
    """Lambdas and built-in functions. The declared type is how the pairs are printed: (be,1)."""
    return (
        lines.flat_map(str.split, Types.STRING())
        .map(lambda word: (word, 1), COUNT)
        .key_by(lambda pair: pair[0], Types.STRING())
        .sum(1)
    )


class Split(FlatMapFunction):
    """Function objects can be configured, and tested by themselves."""

    def __init__(self, separator):
        self.separator = separator

    def flat_map(self, value):
        for word in value.split(self.separator):
            yield word, 1


class Add(ReduceFunction):
    def reduce(self, value1, value2):
        return value1[0], value1[1] + value2[1]


def with_function_objects(lines):
    return lines.flat_map(Split(" "), COUNT).key_by(lambda pair: pair[0]).reduce(Add())


class Count(KeyedProcessFunction):
    """What sum() and reduce() do by themselves, by hand: one number of state for each word."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, word, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield word, count


def with_state(lines):
    return lines.flat_map(str.split, Types.STRING()).key_by(lambda word: word).process(Count(), COUNT)


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    lines = env.from_collection(LINES, Types.STRING())

    # A stream gives a new count with each word. All three are part of one job.
    with_functions(lines).print("functions")
    with_function_objects(lines).print("objects")
    with_state(lines).print("state")
    env.execute("word count")

    # As a batch job, sum() and reduce() give only the last count of each word.
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    with_functions(lines).print("batch")
    env.execute("word count in batch mode")


if __name__ == "__main__":
    main()
