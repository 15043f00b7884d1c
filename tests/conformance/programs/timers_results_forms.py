# compare: exact
# on_timer may yield any number of results, return a list, or return an empty one.
from flintstream.common import Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment


class Returns(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value)
        return ["element %d" % value]

    def on_timer(self, timestamp, ctx):
        return ["timer %d.%d" % (timestamp, i) for i in range(timestamp)]


class Yields(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value)

    def on_timer(self, timestamp, ctx):
        for i in range(timestamp):
            yield "timer %d.%d" % (timestamp, i)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
keyed = env.from_collection([2, 0, 3], Types.INT()).key_by(lambda n: n, key_type=Types.INT())
print(list(keyed.process(Returns(), Types.STRING()).execute_and_collect()))
print(list(keyed.process(Yields(), Types.STRING()).execute_and_collect()))
