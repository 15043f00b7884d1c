"""Every kind of keyed state: a value, a list, a map, a reduced value, an aggregated one; and map_with_state.

The state that a function sees is always that of the key of the record at hand. All six are part of one job.
"""

from flintstream.common import Types
from flintstream.datastream import AggregateFunction, FlatMapFunction, MapFunction, StreamExecutionEnvironment
from flintstream.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

PAIRS = [(1, 3), (1, 5), (1, 7), (1, 4), (1, 2)]
READINGS = [(1, 3.0), (1, 5.0), (1, 7.0), (2, 4.0), (2, 2.0), (2, 6.0)]

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
READING = Types.TUPLE([Types.LONG(), Types.DOUBLE()])
TEXT = Types.TUPLE([Types.LONG(), Types.STRING()])


class AverageOfTwo(FlatMapFunction):
    """One value: count and sum so far. At the second record of a key it gives their average, and starts anew."""

    def open(self, runtime_context):
        self.so_far = runtime_context.get_state(ValueStateDescriptor("so far", PAIR, default_value=(0, 0)))

    def flat_map(self, pair):
        key, number = pair
        count, total = self.so_far.value()
        count, total = count + 1, total + number
        if count < 2:
            self.so_far.update((count, total))
        else:
            self.so_far.clear()
            yield key, total // count


class AverageOfList(FlatMapFunction):
    """A list: all values of the key. From the third on it gives their average."""

    def open(self, runtime_context):
        self.values = runtime_context.get_list_state(ListStateDescriptor("values", Types.DOUBLE()))

    def flat_map(self, reading):
        self.values.add(reading[1])
        values = list(self.values)
        if len(values) >= 3:
            yield reading[0], sum(values) / len(values)


class AverageOfMap(FlatMapFunction):
    """A map: the values of the key by a name each. From the third on it gives their average."""

    def open(self, runtime_context):
        self.values = runtime_context.get_map_state(MapStateDescriptor("values", Types.STRING(), Types.DOUBLE()))

    def flat_map(self, reading):
        names = list(self.values.keys())
        self.values.put(f"reading {len(names) + 1}", reading[1])
        values = list(self.values.values())
        if len(values) >= 3:
            yield reading[0], sum(values) / len(values)


class RunningAverage(MapFunction):
    """A reduced value: the sum, and in a state of its own how many there were."""

    def open(self, runtime_context):
        add = ReducingStateDescriptor("sum", lambda left, right: left + right, Types.DOUBLE())
        self.sum = runtime_context.get_reducing_state(add)
        # A field of the function, in place of this state, would count the records of all keys together.
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG(), default_value=0))

    def map(self, reading):
        self.sum.add(reading[1])
        self.count.update(self.count.value() + 1)
        return reading[0], self.sum.get() / self.count.value()


class Join(AggregateFunction):
    """What comes in, what is stored and what comes out may have three types: here numbers, a list and a text."""

    def create_accumulator(self):
        return ["Contains"]

    def add(self, value, accumulator):
        return [*accumulator, str(value)]

    def get_result(self, accumulator):
        return "-".join(accumulator)

    def merge(self, left, right):
        return left + right[1:]


class AllValues(MapFunction):
    """An aggregated value."""

    def open(self, runtime_context):
        join = AggregatingStateDescriptor("text", Join(), Types.LIST(Types.STRING()))
        self.text = runtime_context.get_aggregating_state(join)

    def map(self, reading):
        self.text.add(reading[1])
        return reading[0], self.text.get()


def sum_before(reading, total):
    """For map_with_state: gets the record and the state, gives the result and the new state."""
    key, value = reading
    total = total or 0.0  # None for the first record of a key
    return (key, total), total + value


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    pairs = env.from_collection(PAIRS, PAIR).key_by(lambda pair: pair[0], Types.LONG())
    readings = env.from_collection(READINGS, READING).key_by(lambda reading: reading[0], Types.LONG())

    pairs.flat_map(AverageOfTwo(), PAIR).print("value")
    readings.flat_map(AverageOfList(), READING).print("list")
    readings.flat_map(AverageOfMap(), READING).print("map")
    readings.map(RunningAverage(), READING).print("reducing")
    readings.map(AllValues(), TEXT).print("aggregating")
    readings.map_with_state(sum_before, READING).print("map_with_state")
    env.execute("keyed state")


if __name__ == "__main__":
    main()
