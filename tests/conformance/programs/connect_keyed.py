# compare: sorted
# Keyed connected streams: one state shared by both inputs. The result does not depend on which input comes first.
from flintstream.common import Types
from flintstream.datastream import CoFlatMapFunction, CoMapFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ListStateDescriptor, ValueStateDescriptor


class Join(CoFlatMapFunction):
    def open(self, runtime_context):
        text = Types.STRING()
        self.left = runtime_context.get_list_state(ListStateDescriptor("left", text))
        self.right = runtime_context.get_list_state(ListStateDescriptor("right", text))

    def flat_map1(self, value):
        self.left.add(value[1])
        for other in self.right.get():
            yield value[0], value[1], other

    def flat_map2(self, value):
        self.right.add(value[1])
        for other in self.left.get():
            yield value[0], other, value[1]


class Tally(CoMapFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def bump(self, key):
        self.count.update((self.count.value() or 0) + 1)
        return key, self.count.value()

    def map1(self, value):
        return self.bump(value[0])

    def map2(self, value):
        return self.bump(value[0])


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
pair = Types.TUPLE([Types.INT(), Types.STRING()])
orders = env.from_collection([(1, "order-a"), (2, "order-b"), (1, "order-c"), (4, "order-d")], pair)
payments = env.from_collection([(2, "pay-x"), (1, "pay-y"), (3, "pay-z")], pair)
connected = orders.connect(payments).key_by(lambda o: o[0], lambda p: p[0], key_type=Types.INT())

for match in connected.flat_map(
    Join(), Types.TUPLE([Types.INT(), Types.STRING(), Types.STRING()])
).execute_and_collect():
    print("match", match)
for tally in orders.key_by(lambda o: o[0]).connect(payments.key_by(lambda p: p[0])).map(Tally()).execute_and_collect():
    print("tally", tally)
