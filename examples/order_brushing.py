"""Order brushing without a pattern: the same as cep_order_brushing.py, with state that is written by hand.

A user who logs in, orders and pays three times within an hour makes a shop look busy. The state of a user is how far the
round has come that is under way, and when the complete rounds were. Any other event breaks off the round that is under
way, but not those that are complete.
"""

from cep_order_brushing import EVENTS
from flintstream.common import Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ListStateDescriptor, ValueStateDescriptor

STEPS = ("log in", "order", "pay")
ROUNDS = 3
WITHIN_MINUTES = 60


class Brushing(KeyedProcessFunction):
    def open(self, runtime_context):
        round_type = Types.TUPLE([Types.INT(), Types.INT()])
        # When the round has begun, and how many of its steps are done.
        self.under_way = runtime_context.get_state(ValueStateDescriptor("under way", round_type))
        # When each complete round has begun and ended.
        self.complete = runtime_context.get_list_state(ListStateDescriptor("complete", round_type))

    def process_element(self, event, ctx):
        begun, done = self.under_way.value() or (event.minute, 0)
        if event.kind != STEPS[done]:
            begun, done = event.minute, 0  # Broken off; a log-in begins the next one.
        if event.kind != STEPS[done]:
            self.under_way.clear()
        elif done + 1 < len(STEPS):
            self.under_way.update((begun, done + 1))
        else:
            self.under_way.clear()
            yield from self.round_ends(event.user, begun, event.minute)

    def round_ends(self, user, begun, ended):
        recent = [each for each in self.complete if ended - each[0] < WITHIN_MINUTES]
        rounds = [*recent, (begun, ended)]
        if len(rounds) == ROUNDS:
            yield f"{user}: {ROUNDS} orders from minute {rounds[0][0]} to {ended}"
            rounds = []
        self.complete.update(rounds)


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    by_user = env.from_collection(EVENTS).key_by(lambda event: event.user, Types.STRING())
    by_user.process(Brushing(), Types.STRING()).print()
    env.execute("order brushing")


if __name__ == "__main__":
    main()
