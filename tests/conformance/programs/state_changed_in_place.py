# compare: exact
# A list or dict read from state and changed in place is the one that the next record reads, without an update.
from flintstream.common import Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import MapStateDescriptor, ValueStateDescriptor


class Remember(KeyedProcessFunction):
    def open(self, runtime_context):
        self.words = runtime_context.get_state(ValueStateDescriptor("words", Types.PICKLED_BYTE_ARRAY()))
        self.by_length = runtime_context.get_map_state(
            MapStateDescriptor("by_length", Types.INT(), Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value, ctx):
        words = self.words.value()
        if words is None:
            self.words.update([value[1]])
        else:
            words.append(value[1])
        same_length = self.by_length.get(len(value[1]))
        if same_length is None:
            self.by_length.put(len(value[1]), {value[1]})
        else:
            same_length.add(value[1])
        yield "%s %s %s" % (
            value[0],
            self.words.value(),
            sorted((length, sorted(words)) for length, words in self.by_length.items()),
        )


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
data = [("a", "to"), ("b", "be"), ("a", "or"), ("a", "not"), ("b", "to"), ("a", "be")]
env.from_collection(data, Types.TUPLE([Types.STRING(), Types.STRING()])).key_by(
    lambda t: t[0], key_type=Types.STRING()
).process(Remember(), Types.STRING()).print()
env.execute()
