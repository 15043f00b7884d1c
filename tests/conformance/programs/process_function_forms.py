# compare: exact
# process_element may yield, return a list, or return nothing; flat_map gives any iterable.
from flintstream.common import Types
from flintstream.datastream import ProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.functions import FlatMapFunction


class Yields(ProcessFunction):
    def process_element(self, value, ctx):
        if value > 1:
            yield value
            yield value * 10


class Returns(ProcessFunction):
    def process_element(self, value, ctx):
        if value > 10:
            return [value, -value]


class Words(FlatMapFunction):
    def flat_map(self, value):
        if value > 0:
            return iter(["p%d" % value] * 2)
        if value == -20:
            return []
        return ["n%d" % -value]


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection([1, 2, 3], Types.INT()).process(Yields(), Types.INT()).process(Returns(), Types.INT()).flat_map(
    Words(), Types.STRING()
).print()
env.execute()
