# compare: exact
# What get(), keys(), values() and items() give: read twice, kept while the state changes, after an empty update.
from flintstream.common import Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ListStateDescriptor, MapStateDescriptor


class Views(KeyedProcessFunction):
    def open(self, runtime_context):
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.INT()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.INT()))

    def process_element(self, value, ctx):
        self.list.add_all([1, 2])
        self.list.add_all([])
        yield "twice %s %s" % (list(self.list.get()), list(self.list.get()))
        self.list.update([n * 10 for n in self.list.get()])
        yield "from itself %s" % list(self.list.get())
        self.list.update([])
        yield "empty %s" % list(self.list.get())
        self.list.update((7, 8))
        yield "from a tuple %s" % list(self.list.get())

        self.map.put_all({"a": 1, "b": 2}.items())
        for key in sorted(self.map.keys()):
            self.map.put(key, self.map.get(key) + 1)
        yield "raised %s" % sorted(self.map.items())
        for key in list(self.map):
            if key != "b":
                self.map.remove(key)
        self.map.remove("never there")
        yield "left %s %s" % (list(self.map.keys()), list(self.map.values()))
        self.map["c"] = 5
        yield "sum %d" % sum(self.map.values())
        self.map.put_all([("d", 1), ("b", 0)])
        yield "put %s" % sorted(self.map.items())


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection([0, 0], Types.INT()).key_by(lambda v: v, key_type=Types.INT()).process(
    Views(), Types.STRING()
).print()
env.execute()
