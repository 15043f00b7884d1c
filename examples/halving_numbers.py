"""Halves numbers until they are below a limit: an iteration.

What is still too large is fed back to the start of the loop, and comes round once more; the rest leaves it. The job ends by
itself, when all numbers have been read and none is on its way round any more.

    flint demo halving_numbers
"""

from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

LIMIT = 10
STEP = Types.TUPLE([Types.LONG(), Types.LONG(), Types.INT()])


def halve(step):
    number, now, rounds = step
    return number, now // 2, rounds + 1


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)

    numbers = env.from_sequence(1, 100).filter(lambda number: number % 9 == 0)
    loop = numbers.map(lambda number: (number, number, 0), STEP).iterate()
    halved = loop.map(halve, STEP)
    loop.close_with(halved.filter(lambda step: step[1] >= LIMIT))

    small = halved.filter(lambda step: step[1] < LIMIT)
    small.map(lambda step: f"{step[0]} → {step[1]} in {step[2]}", Types.STRING()).print()
    env.execute("halving numbers")


if __name__ == "__main__":
    main()
