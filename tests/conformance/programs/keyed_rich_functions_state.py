# compare: exact
# State in map, flat_map and filter functions on a keyed stream.
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.functions import FilterFunction, FlatMapFunction, MapFunction
from flintstream.datastream.state import ListStateDescriptor, ValueStateDescriptor


class Deduplicate(FilterFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def filter(self, value):
        if self.seen.value():
            return False
        self.seen.update(True)
        return True


class Difference(MapFunction):
    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.DOUBLE()))

    def map(self, value):
        last = self.last.value()
        self.last.update(value[1])
        return value[0], None if last is None else value[1] - last


class InThrees(FlatMapFunction):
    def open(self, runtime_context):
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting", Types.PICKLED_BYTE_ARRAY()))

    def flat_map(self, value):
        self.waiting.add(value[1])
        waiting = list(self.waiting.get())
        if len(waiting) == 3:
            self.waiting.clear()
            yield value[0], waiting


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
data = [("a", 1.0), ("b", 5.0), ("a", 1.0), ("a", 4.0), ("b", 2.5), ("b", 5.0), ("a", 0.5), ("b", 1.0)]
ds = env.from_collection(data, Types.TUPLE([Types.STRING(), Types.DOUBLE()]))

print(list(ds.key_by(lambda t: t).filter(Deduplicate()).execute_and_collect()))
print(list(ds.key_by(lambda t: t[0]).map(Difference()).execute_and_collect()))
print(list(ds.key_by(lambda t: t[0]).flat_map(InThrees()).execute_and_collect()))
