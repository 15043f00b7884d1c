# compare: exact
# Keyed by one field, aggregated, keyed by another.
from flintstream.common import Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import MapStateDescriptor, ValueStateDescriptor


class PerUser(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value, ctx):
        n = (self.count.value() or 0) + 1
        self.count.update(n)
        yield value[0], value[1], n


class PerCountry(KeyedProcessFunction):
    def open(self, runtime_context):
        # the same name as in the other function: another state
        self.count = runtime_context.get_map_state(MapStateDescriptor("count", Types.STRING(), Types.INT()))

    def process_element(self, value, ctx):
        self.count.put(value[0], value[2])
        counts = dict(self.count.items())
        yield "%s %s" % (ctx.get_current_key(), sorted(counts.items()))


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
clicks = [("ann", "no"), ("bob", "fi"), ("ann", "no"), ("cid", "no"), ("bob", "no"), ("ann", "fi"), ("cid", "no")]
env.from_collection(clicks).key_by(lambda c: c[0]).process(PerUser()).key_by(lambda c: c[1]).process(
    PerCountry(), Types.STRING()
).print()
env.execute()
