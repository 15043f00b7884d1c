"""Rules that change while the job runs: pairs of shapes of one colour, as rules say that are broadcast to all subtasks.

A rule names a first and a second shape. Each item of the second shape is paired with the items of its colour that wait
as the first. Rules are changed by sending another one of the same name; it holds from its time on.

Which of two streams comes first is chance. So that the result is not, items wait for the watermark, which is the lesser
of both streams: when it has passed an item, all rules of that time are there.
"""

from dataclasses import dataclass

from flintstream.common import Types, WatermarkStrategy
from flintstream.datastream import KeyedBroadcastProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import MapStateDescriptor


@dataclass(frozen=True)
class Item:
    time: int
    colour: str
    shape: str


@dataclass(frozen=True)
class Rule:
    time: int
    name: str
    first: str
    second: str


RULES = [
    Rule(0, "pair", "rectangle", "triangle"),
    Rule(0, "twins", "circle", "circle"),
    Rule(50, "pair", "triangle", "rectangle"),  # from now on the other way round
]
ITEMS = [
    Item(10, "red", "rectangle"),
    Item(11, "blue", "rectangle"),
    Item(12, "red", "rectangle"),
    Item(13, "red", "triangle"),  # with two red rectangles
    Item(14, "green", "triangle"),  # too early for its rectangle
    Item(20, "blue", "circle"),
    Item(21, "blue", "circle"),  # with the one before
    Item(60, "blue", "triangle"),  # the blue rectangle has waited for another rule
    Item(61, "blue", "rectangle"),  # with the triangle
    Item(62, "blue", "circle"),  # twins are as they were: with the circle before
]

ANY = Types.PICKLED_BYTE_ARRAY()
VERSIONS = MapStateDescriptor("rules", Types.STRING(), Types.LIST(ANY))


class Pairs(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.early = runtime_context.get_map_state(MapStateDescriptor("early", Types.LONG(), Types.LIST(ANY)))
        self.waiting = runtime_context.get_map_state(MapStateDescriptor("waiting", Types.STRING(), Types.LIST(ANY)))

    def process_broadcast_element(self, rule, ctx):
        """In every subtask, so the rules are the same in all; only here they can be written."""
        rules = ctx.get_broadcast_state(VERSIONS)
        rules.put(rule.name, [*(rules.get(rule.name) or []), rule])

    def process_element(self, item, ctx):
        self.early.put(item.time, [*(self.early.get(item.time) or []), item])
        ctx.timer_service().register_event_time_timer(item.time)

    def on_timer(self, timestamp, ctx):
        items = self.early.get(timestamp)
        self.early.remove(timestamp)
        for item in items:
            for versions in ctx.get_broadcast_state(VERSIONS).values():
                valid = [rule for rule in versions if rule.time <= item.time]
                if valid:
                    yield from self.apply(max(valid, key=lambda rule: rule.time), item)

    def apply(self, rule, item):
        # Those from before the rule has changed wait no longer.
        waiting = [first for first in self.waiting.get(rule.name) or [] if first.time >= rule.time]
        if item.shape == rule.second:
            for first in waiting:
                yield f"{item.colour}: {first.shape} {first.time} - {item.shape} {item.time}"
            waiting = []
        if item.shape == rule.first:
            waiting = [*waiting, item]
        if waiting:
            self.waiting.put(rule.name, waiting)
        else:
            self.waiting.remove(rule.name)


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    in_event_time = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda event, before: event.time
    )
    items = env.from_collection(ITEMS).assign_timestamps_and_watermarks(in_event_time)
    rules = env.from_collection(RULES).assign_timestamps_and_watermarks(in_event_time)
    pairs = (
        items.key_by(lambda item: item.colour, Types.STRING())
        .connect(rules.broadcast(VERSIONS))
        .process(Pairs(), Types.STRING())
    )
    pairs.print()
    env.execute("broadcast rules")


if __name__ == "__main__":
    main()
