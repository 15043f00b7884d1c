# compare: sorted
# BroadcastProcessFunction: values wait until their rule is there, so the result does not depend on which input comes first.
from flintstream.common import Types
from flintstream.datastream import BroadcastProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import MapStateDescriptor

limits = MapStateDescriptor("limits", Types.STRING(), Types.INT())


class Limit(BroadcastProcessFunction):
    def open(self, runtime_context):
        self.waiting = []

    def check(self, value, limit):
        return "%s %d %s" % (value[0], value[1], "over" if value[1] > limit else "ok")

    def process_element(self, value, ctx: BroadcastProcessFunction.ReadOnlyContext):
        known = ctx.get_broadcast_state(limits)
        if known.contains(value[0]):
            yield self.check(value, known.get(value[0]))
        else:
            self.waiting.append(value)

    def process_broadcast_element(self, value, ctx: BroadcastProcessFunction.Context):
        name, limit = value
        ctx.get_broadcast_state(limits).put(name, limit)
        yield "limit of %s is %d" % value
        for waiting in [v for v in self.waiting if v[0] == name]:
            self.waiting.remove(waiting)
            yield self.check(waiting, limit)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pair = Types.TUPLE([Types.STRING(), Types.INT()])
values = env.from_collection([("heat", 30), ("cold", 2), ("heat", 10), ("wind", 7), ("cold", 9)], pair)
rules = env.from_collection([("cold", 5), ("heat", 20)], pair).broadcast(limits)
values.connect(rules).process(Limit(), Types.STRING()).print()
env.execute()
