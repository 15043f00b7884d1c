# compare: exact
# Time to live of lists and maps: each element and each entry has its own. Caches are off, so that PyFlink looks at the time.
import time

from flintstream.common import Configuration, Time, Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ListStateDescriptor, MapStateDescriptor, StateTtlConfig


class Expire(KeyedProcessFunction):
    def open(self, runtime_context):
        ttl = StateTtlConfig.new_builder(Time.milliseconds(1500)).never_return_expired().build()
        items = ListStateDescriptor("items", Types.STRING())
        items.enable_time_to_live(ttl)
        self.items = runtime_context.get_list_state(items)
        entries = MapStateDescriptor("entries", Types.STRING(), Types.STRING())
        entries.enable_time_to_live(ttl)
        self.entries = runtime_context.get_map_state(entries)

    def process_element(self, value, ctx):
        wait, letter = value
        time.sleep(wait)
        if letter:
            self.items.add(letter)
            self.entries.put(letter.lower(), letter)
        yield "%s %s a: %s %s" % (
            list(self.items.get()),
            sorted(self.entries.items()),
            self.entries.get("a"),
            self.entries.contains("a"),
        )


config = Configuration()
config.set_integer("python.fn-execution.bundle.size", 1)
config.set_integer("python.state.cache-size", 0)
config.set_integer("python.map-state.read-cache-size", 0)
config.set_integer("python.map-state.write-cache-size", 0)
env = StreamExecutionEnvironment.get_execution_environment(config)
env.set_parallelism(1)
steps = [(0.0, "a"), (1.0, "b"), (1.0, ""), (0.0, "A"), (1.0, "b"), (1.0, ""), (2.0, "")]
env.from_collection(steps, Types.TUPLE([Types.DOUBLE(), Types.STRING()])).key_by(
    lambda s: 0, key_type=Types.INT()
).process(Expire(), Types.STRING()).print()
env.execute()
