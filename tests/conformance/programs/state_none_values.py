# compare: exact
# None in state: as a value, in a list, as a map's value.
from flintstream.common import Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor


class Nones(KeyedProcessFunction):
    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.PICKLED_BYTE_ARRAY()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.PICKLED_BYTE_ARRAY()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value, ctx):
        self.value.update(value)
        self.list.add(value)
        self.map.put("key %s" % value, value)
        yield "%s %s %s" % (self.value.value(), list(self.list.get()), sorted(self.map.items()))
        yield "get %s, empty %s" % (self.map.get("key None"), self.map.is_empty())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection([None, 1, None]).key_by(lambda v: 0, key_type=Types.INT()).process(Nones(), Types.STRING()).print()
env.execute()
