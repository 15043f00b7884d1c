# compare: exact
# MapState: put, put_all, get, contains, remove, keys, values, items, is_empty, clear and the operators of dicts.
from flintstream.common import Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import MapStateDescriptor


class Exercise(KeyedProcessFunction):
    def open(self, runtime_context):
        self.m = runtime_context.get_map_state(MapStateDescriptor("m", Types.STRING(), Types.INT()))

    def process_element(self, value, ctx):
        m = self.m
        yield "start empty=%s" % m.is_empty()
        m.put("a", 1)
        m.put_all({"b": 2, "c": 3}.items())
        yield "get %s %s %s" % (m.get("a"), m.get("b"), m.get("zzz"))
        yield "contains %s %s" % (m.contains("c"), m.contains("d"))
        m.remove("a")
        yield "keys %s" % sorted(m.keys())
        yield "values %s" % sorted(m.values())
        yield "items %s" % sorted(m.items())
        m["d"] = 4
        del m["b"]
        yield "in %s %s" % ("d" in m, "b" in m)
        yield "iterate %s" % sorted(m)
        yield "index %s" % m["d"]
        yield "empty=%s" % m.is_empty()
        if value == "clear":
            m.clear()
            yield "cleared %s" % m.is_empty()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection(["clear", "keep", "keep"]).key_by(lambda v: 1).process(Exercise(), Types.STRING()).print()
env.execute()
