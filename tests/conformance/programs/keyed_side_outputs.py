# compare: sorted
# Side outputs of a keyed process function, one of them processed further with its own key.
from flintstream.common import Row, Types
from flintstream.datastream import KeyedProcessFunction, OutputTag, StreamExecutionEnvironment
from flintstream.datastream.state import ValueStateDescriptor

ALERTS = OutputTag("alerts", Types.ROW_NAMED(["account", "total"], [Types.STRING(), Types.LONG()]))
AUDIT = OutputTag("audit", Types.STRING())


class Watch(KeyedProcessFunction):
    def __init__(self, limit):
        self.limit = limit

    def open(self, runtime_context):
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def process_element(self, value, ctx):
        total = (self.total.value() or 0) + value[1]
        self.total.update(total)
        yield AUDIT, "%s:%d" % (ctx.get_current_key(), value[1])
        if total > self.limit:
            yield ALERTS, Row(value[0], total)
        yield value[0], total


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
pair = Types.TUPLE([Types.STRING(), Types.LONG()])
ds = env.from_collection([("acc1", 40), ("acc2", 10), ("acc1", 70), ("acc2", 95), ("acc1", 1)], pair)
totals = ds.key_by(lambda t: t[0], key_type=Types.STRING()).process(Watch(100), pair)
totals.print("total")
totals.get_side_output(AUDIT).print("audit")
totals.get_side_output(ALERTS).key_by(lambda r: r.account).reduce(
    lambda a, b: Row(account=a.account, total=max(a.total, b.total))
).print("alert")
env.execute()
