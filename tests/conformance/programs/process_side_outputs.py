# compare: sorted
# One main output and three side outputs, typed and untyped.
from flintstream.common import Types
from flintstream.datastream import OutputTag, ProcessFunction, StreamExecutionEnvironment

small = OutputTag("small", Types.INT())
named = OutputTag("named", Types.TUPLE([Types.STRING(), Types.INT()]))
anything = OutputTag("anything")


class Split(ProcessFunction):
    def process_element(self, value, ctx):
        if value < 3:
            yield small, value
        elif value == 5:
            yield anything, {"five": value}
            yield anything, [value]
        else:
            yield value
        if value % 4 == 0:
            yield named, ("n%d" % value, value)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
main = env.from_collection(list(range(10)), Types.INT()).process(Split(), Types.INT())
main.print("main")
main.get_side_output(small).map(lambda v: v + 1000, Types.INT()).print("small")
main.get_side_output(named).print("named")
main.get_side_output(anything).map(lambda v: "%s %s" % (type(v).__name__, v), Types.STRING()).print("anything")
env.execute()
