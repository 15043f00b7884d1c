# compare: sorted
# CoProcessFunction and KeyedCoProcessFunction with side outputs, without timers.
from flintstream.common import Types
from flintstream.datastream import CoProcessFunction, KeyedCoProcessFunction, OutputTag, StreamExecutionEnvironment
from flintstream.datastream.state import ValueStateDescriptor

rejected = OutputTag("rejected", Types.STRING())


class Mix(CoProcessFunction):
    def process_element1(self, value, ctx: CoProcessFunction.Context):
        if value < 0:
            yield rejected, "first %d" % value
        else:
            yield "first %d" % value

    def process_element2(self, value, ctx: CoProcessFunction.Context):
        if not value:
            yield rejected, "second empty"
        else:
            yield "second %s" % value


class Pair(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.name = runtime_context.get_state(ValueStateDescriptor("name", Types.STRING()))
        self.score = runtime_context.get_state(ValueStateDescriptor("score", Types.INT()))

    def both(self, ctx):
        if self.name.value() is not None and self.score.value() is not None:
            yield "%s: %s has %d" % (ctx.get_current_key(), self.name.value(), self.score.value())

    def process_element1(self, value, ctx):
        self.name.update(value[1])
        yield from self.both(ctx)

    def process_element2(self, value, ctx):
        self.score.update(value[1])
        yield from self.both(ctx)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
mixed = (
    env.from_collection([1, -2, 3], Types.INT())
    .connect(env.from_collection(["a", "", "b"], Types.STRING()))
    .process(Mix(), Types.STRING())
)
mixed.print("main")
mixed.get_side_output(rejected).print("rejected")

names = env.from_collection([(1, "ann"), (2, "bob"), (3, "cid")], Types.TUPLE([Types.INT(), Types.STRING()]))
scores = env.from_collection([(2, 20), (1, 10), (4, 40)], Types.TUPLE([Types.INT(), Types.INT()]))
names.connect(scores).key_by(lambda n: n[0], lambda s: s[0]).process(Pair(), Types.STRING()).print("pair")
env.execute()
