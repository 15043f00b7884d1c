# compare: exact
# Broadcast state of several descriptors: every method of the writable state, and of the read-only one. BATCH mode reads the broadcast side first.
from flintstream.common import Types
from flintstream.datastream import BroadcastProcessFunction, RuntimeExecutionMode, StreamExecutionEnvironment
from flintstream.datastream.state import MapStateDescriptor

words = MapStateDescriptor("words", Types.STRING(), Types.INT())
lengths = MapStateDescriptor("lengths", Types.INT(), Types.LIST(Types.STRING()))


def show(state):
    return "%s %s %s %s" % (sorted(state.items()), sorted(state.keys()), len(list(state.values())), state.is_empty())


class Methods(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        known, by_length = ctx.get_broadcast_state(words), ctx.get_broadcast_state(lengths)
        yield "%s: %s %s %s" % (value, known.get(value), known.contains(value), value in known)
        yield "words %s" % show(known)
        yield "lengths %s" % show(by_length)

    def process_broadcast_element(self, value, ctx):
        known, by_length = ctx.get_broadcast_state(words), ctx.get_broadcast_state(lengths)
        if value == "CLEAR":
            known.clear()
            by_length.remove(2)
        elif value == "MORE":
            known.put_all({"more": 1, "words": 2}.items())
        else:
            known.put(value, (known.get(value) or 0) + 1)
            by_length.put(len(value), [*(by_length.get(len(value)) or []), value])
        yield "after %s: %s; %s" % (value, show(known), show(by_length))


env = StreamExecutionEnvironment.get_execution_environment()
env.set_runtime_mode(RuntimeExecutionMode.BATCH)
env.set_parallelism(1)
told = env.from_collection(["to", "be", "not", "to", "CLEAR", "or", "MORE"], Types.STRING())
asked = env.from_collection(["or", "be", "more"], Types.STRING())
for line in asked.connect(told.broadcast(words, lengths)).process(Methods(), Types.STRING()).execute_and_collect():
    print(line)
