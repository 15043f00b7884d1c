"""A source that remembers how far it has come: it counts, and its state is the next number.

The lock makes emitting a number and stepping on one act: whoever asks for the state meanwhile waits, and never sees a
number that is emitted and not counted, or counted and not emitted.
"""

from flintstream.common import Types
from flintstream.datastream import SourceFunction, StreamExecutionEnvironment
from flintstream.datastream.functions import ListCheckpointed


class Counter(SourceFunction, ListCheckpointed):
    """Emits the numbers below `end`."""

    def __init__(self, end):
        super().__init__()
        self.end = end
        self.next = 0
        self.running = True

    def run(self, ctx):
        while self.running and self.next < self.end:
            with ctx.get_checkpoint_lock():
                ctx.collect(self.next)
                self.next += 1

    def cancel(self):
        self.running = False

    def snapshot_state(self, checkpoint_id, timestamp):
        return [self.next]

    def restore_state(self, state):
        (self.next,) = state


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.add_source(Counter(5), "counter", Types.LONG()).print("from the start")
    env.execute("counter")

    # What a job does with the state of an earlier one, here by hand.
    counter = Counter(8)
    counter.restore_state([5])
    env.add_source(counter, "counter", Types.LONG()).print("going on")
    env.execute("counter, going on")


if __name__ == "__main__":
    main()
