"""Counts words as they come, and prints each new count."""

from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

LINES = [
    "to be or not to be",
    "that is the question",
    "whether it is nobler in the mind to suffer",
    "or to take arms against a sea of troubles",
]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    (
        env.from_collection(LINES, type_info=Types.STRING())
        .flat_map(str.split, output_type=Types.STRING())
        .map(lambda word: (word, 1), output_type=Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0], key_type=Types.STRING())
        .reduce(lambda left, right: (left[0], left[1] + right[1]))
        .print()
    )
    env.execute("word count")


if __name__ == "__main__":
    main()
