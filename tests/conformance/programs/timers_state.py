# compare: exact
# Every kind of state used in on_timer: it is that of the timer's key.
from flintstream.common import Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)


class Summary(KeyedProcessFunction):
    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.STRING()))
        self.words = runtime_context.get_list_state(ListStateDescriptor("words", Types.STRING()))
        self.counts = runtime_context.get_map_state(MapStateDescriptor("counts", Types.STRING(), Types.INT()))
        self.length = runtime_context.get_reducing_state(
            ReducingStateDescriptor("length", lambda a, b: a + b, Types.INT())
        )

    def process_element(self, value, ctx):
        key, word = value
        self.last.update(word)
        self.words.add(word)
        self.counts.put(word, (self.counts.get(word) or 0) + 1)
        self.length.add(len(word))
        ctx.timer_service().register_event_time_timer(key)
        ctx.timer_service().register_event_time_timer(key + 100)

    def on_timer(self, timestamp, ctx):
        yield "%d: last %s, words %s, counts %s, length %s" % (
            timestamp,
            self.last.value(),
            list(self.words.get()),
            sorted(self.counts.items()),
            self.length.get(),
        )
        self.last.clear()
        self.words.update(["new"])
        self.counts.clear()
        self.length.clear()


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
data = [(2, "to"), (1, "be"), (2, "or"), (1, "not"), (2, "to"), (1, "be")]
env.from_collection(data, Types.TUPLE([Types.INT(), Types.STRING()])).key_by(
    lambda t: t[0], key_type=Types.INT()
).process(Summary(), Types.STRING()).print()
env.execute()
