"""What a function can know and leave behind: job parameters, its subtask, accumulators, open and close.

flint run examples/rich_function.py --least 40
"""

import argparse

from flintstream.common import Types
from flintstream.datastream import FilterFunction, StreamExecutionEnvironment


class LongEnough(FilterFunction):
    """Keeps long texts, and counts what it sees."""

    def open(self, runtime_context):
        # Called once in each subtask, before the first record: the place for connections and other resources.
        self.least = int(runtime_context.get_job_parameter("least", "10"))
        self.seen = runtime_context.get_long_counter("texts seen")
        self.characters = runtime_context.get_histogram("length in tens")

    def filter(self, text):
        self.seen.add(1)
        self.characters.add(len(text) // 10 * 10)
        return len(text) >= self.least

    def close(self):
        """Called once in each subtask at the end, also after a failure: give back what open() took."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--least", default="25", help="how long a text must be")
    arguments = parser.parse_args()

    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    env.get_config().set_global_job_parameters(vars(arguments))
    texts = env.from_sequence(1, 1000).map(lambda number: "x" * (number % 30), Types.STRING())
    long_texts = texts.filter(LongEnough()).name("long enough")
    long_texts.map(len, Types.INT()).key_by(lambda length: length).reduce(max).filter(lambda length: False).print()

    # Accumulators are summed up over all subtasks, and come with the job's result.
    result = env.execute("rich function")
    print("seen:", result.get_accumulator_result("texts seen"))
    print("lengths:", dict(sorted(result.get_accumulator_result("length in tens").items())))


if __name__ == "__main__":
    main()
