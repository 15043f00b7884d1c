"""An alarm at three failed log-ins in a row within ten seconds.

"In a row" means as they happened, not as they came: log-ins reach the program up to five seconds late. Each waits in the
state of its user for an event-time timer. When the watermark lets that fire, everything that happened before is there,
and timers fire in the order of their times.
"""

from dataclasses import dataclass

from flintstream.common import Duration, Types, WatermarkStrategy
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ListStateDescriptor, MapStateDescriptor


@dataclass(frozen=True)
class LogIn:
    user: str
    succeeded: bool
    second: int


LOG_INS = [
    LogIn("ann", False, 1),
    LogIn("ann", False, 4),
    LogIn("bob", False, 5),
    LogIn("ann", False, 6),  # the third of ann, within ten seconds
    LogIn("bob", False, 9),
    LogIn("bob", False, 8),  # late, and still the second of three
    LogIn("cid", False, 10),
    LogIn("cid", False, 11),
    LogIn("cid", False, 14),
    LogIn("cid", True, 12),  # late: cid's failures were not in a row
    LogIn("dan", False, 20),
    LogIn("dan", False, 25),
    LogIn("dan", False, 31),  # too slow
    LogIn("dan", False, 32),  # but this one is within ten seconds of the two before
]


class ThreeFailures(KeyedProcessFunction):
    def open(self, runtime_context):
        any_object = Types.PICKLED_BYTE_ARRAY()
        self.early = runtime_context.get_map_state(MapStateDescriptor("early", Types.LONG(), Types.LIST(any_object)))
        self.failures = runtime_context.get_list_state(ListStateDescriptor("failures", Types.LONG()))

    def process_element(self, log_in, ctx):
        time = ctx.timestamp()
        self.early.put(time, [*(self.early.get(time) or []), log_in])
        ctx.timer_service().register_event_time_timer(time)

    def on_timer(self, timestamp, ctx):
        log_ins = self.early.get(timestamp)
        self.early.remove(timestamp)
        for log_in in log_ins:
            if log_in.succeeded:
                self.failures.clear()
                continue
            recent = [second for second in self.failures if second > log_in.second - 10] + [log_in.second]
            if len(recent) == 3:
                yield f"{log_in.user} failed at seconds {recent[0]}, {recent[1]} and {recent[2]}"
                recent = []
            self.failures.update(recent)


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    in_event_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)).with_timestamp_assigner(
        lambda log_in, before: log_in.second * 1000
    )
    (
        env.from_collection(LOG_INS)
        .assign_timestamps_and_watermarks(in_event_time)
        .key_by(lambda log_in: log_in.user, Types.STRING())
        .process(ThreeFailures(), Types.STRING())
        .print()
    )
    env.execute("failed log-ins")


if __name__ == "__main__":
    main()
