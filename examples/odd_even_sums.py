"""Doubles numbers, and sums up separately those that come from odd ones and those that come from even ones.

Two keys, so two subtasks are enough. `flint info examples/odd_even_sums.py` shows what becomes of the program: a task
that reads and doubles, and a task that sums and prints, each with two subtasks.
"""

from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)

    # Nothing runs yet: these lines only draw the graph.
    numbers = env.from_sequence(1, 10)
    doubled = numbers.map(
        lambda number: ("odd" if number % 2 else "even", number * 2),
        output_type=Types.TUPLE([Types.STRING(), Types.LONG()]),
    )
    doubled.key_by(lambda pair: pair[0], key_type=Types.STRING()).sum(1).print()

    env.execute("odd and even sums")


if __name__ == "__main__":
    main()
