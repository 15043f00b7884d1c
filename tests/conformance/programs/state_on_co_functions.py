# compare: sorted
# State of both inputs' keys in CoMapFunction and CoFlatMapFunction. The result does not depend on which input comes first.
from flintstream.common import Types
from flintstream.datastream import CoFlatMapFunction, CoMapFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor


class Pairs(CoFlatMapFunction):
    def open(self, runtime_context):
        self.left = runtime_context.get_list_state(ListStateDescriptor("left", Types.INT()))
        self.right = runtime_context.get_map_state(MapStateDescriptor("right", Types.STRING(), Types.BOOLEAN()))

    def flat_map1(self, value):
        self.left.add(value[1])
        for name in sorted(self.right.keys()):
            yield "%s %d %s" % (value[0], value[1], name)

    def flat_map2(self, value):
        self.right.put(value[1], True)
        for number in self.left.get():
            yield "%s %d %s" % (value[0], number, value[1])


class Largest(CoMapFunction):
    def open(self, runtime_context):
        self.left = runtime_context.get_reducing_state(ReducingStateDescriptor("left", max, Types.INT()))
        self.right = runtime_context.get_reducing_state(ReducingStateDescriptor("right", max, Types.STRING()))

    def map1(self, value):
        self.left.add(value[1])
        return "%s %s" % (value[0], self.left.get())

    def map2(self, value):
        self.right.add(value[1])
        return "%s %s" % (value[0], self.right.get())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
numbers = env.from_collection([("a", 2), ("b", 1), ("a", 1), ("a", 3)], Types.TUPLE([Types.STRING(), Types.INT()]))
names = env.from_collection([("a", "y"), ("b", "z"), ("a", "x"), ("c", "w")], Types.TUPLE([Types.STRING()] * 2))
connected = numbers.connect(names).key_by(lambda t: t[0], lambda t: t[0], key_type=Types.STRING())
connected.flat_map(Pairs(), Types.STRING()).print("pairs")
connected.map(Largest(), Types.STRING()).print("largest")
env.execute()
