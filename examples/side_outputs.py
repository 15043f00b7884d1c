"""Splits a stream of readings into three: good ones, those out of range, and those that cannot be read."""

from flintstream.common import Types
from flintstream.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment

LINES = ["oven,180", "oven,9000", "fridge,4", "fridge,cold", "freezer,-18", "???"]

READING = Types.TUPLE([Types.STRING(), Types.INT()])
OUT_OF_RANGE = OutputTag("out of range", READING)
UNREADABLE = OutputTag("unreadable", Types.STRING())


class Parse(ProcessFunction):
    """What is yielded goes to the main output; as (tag, value) it goes to a side output."""

    def process_element(self, line, ctx):
        try:
            sensor, degrees = line.split(",")
            reading = sensor, int(degrees)
        except ValueError:
            yield UNREADABLE, line
            return
        if -50 <= reading[1] <= 500:
            yield reading
        else:
            yield OUT_OF_RANGE, reading


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    readings = env.from_collection(LINES, Types.STRING()).process(Parse(), READING)

    # Each output is a stream like any other, with its own type and its own operators.
    readings.print("good")
    readings.get_side_output(OUT_OF_RANGE).map(lambda reading: reading[0], Types.STRING()).print("check sensor")
    readings.get_side_output(UNREADABLE).print("unreadable")
    env.execute("side outputs")


if __name__ == "__main__":
    main()
