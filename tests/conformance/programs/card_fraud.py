# compare: sorted
# A payment under 1 followed by one over 500 on the same card within a minute of processing time is reported.
from flintstream.common import Row, Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ValueStateDescriptor


class FraudDetector(KeyedProcessFunction):
    def open(self, runtime_context):
        self.small = runtime_context.get_state(ValueStateDescriptor("small", Types.BOOLEAN()))
        self.timer = runtime_context.get_state(ValueStateDescriptor("timer", Types.LONG()))

    def process_element(self, value, ctx):
        if self.small.value():
            if value.amount > 500:
                yield Row(value.card, value.amount)
            ctx.timer_service().delete_processing_time_timer(self.timer.value())
            self.small.clear()
            self.timer.clear()
        if value.amount < 1:
            end = ctx.timer_service().current_processing_time() + 60000
            ctx.timer_service().register_processing_time_timer(end)
            self.small.update(True)
            self.timer.update(end)

    def on_timer(self, timestamp, ctx):
        self.small.clear()
        self.timer.clear()
        return []


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
payment = Types.ROW_NAMED(["card", "amount"], [Types.INT(), Types.DOUBLE()])
payments = [
    Row(1, 0.5),
    Row(2, 700.0),
    Row(1, 501.0),
    Row(3, 0.01),
    Row(3, 20.0),
    Row(3, 900.0),
    Row(2, 0.99),
    Row(2, 0.1),
    Row(2, 500.5),
    Row(2, 800.0),
    Row(1, 1.0),
    Row(1, 2000.0),
]
env.from_collection(payments, payment).key_by(lambda p: p.card, key_type=Types.INT()).process(
    FraudDetector(), Types.ROW([Types.INT(), Types.DOUBLE()])
).print("fraud")
env.execute()
