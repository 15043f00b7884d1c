# compare: sorted
# Types declared in many places: sources, keys, state, side outputs, unions, connected streams, nested collections.
import datetime
import decimal

from flintstream.common import Instant, Row, Types
from flintstream.datastream import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from flintstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
person = Types.ROW_NAMED(
    ["name", "born", "tags", "scores", "home"],
    [
        Types.STRING(),
        Types.SQL_DATE(),
        Types.LIST(Types.STRING()),
        Types.MAP(Types.STRING(), Types.DOUBLE()),
        Types.ROW_NAMED(["city", "zip"], [Types.STRING(), Types.INT()]),
    ],
)
people = env.from_collection(
    [
        Row("Ann", datetime.date(1990, 5, 17), ["a", "b"], {"x": 1.5}, Row("Bern", 3000)),
        Row("Bob", None, [], {}, None),
        Row(None, datetime.date(1969, 12, 31), ["ü"], {"y": -0.0}, Row("Oslo", None)),
    ],
    person,
)
people.print("people")
people.map(lambda p: (p.name, p.tags, p["scores"], p.home)).print("fields")
people.map(lambda p: p.home.city if p.home else "none", Types.STRING()).print("city")
people.rebalance().map(lambda p: repr(p), Types.STRING()).print("repr")
tag = OutputTag("row", Types.ROW([Types.STRING(), Types.LIST(Types.INT())]))
tag2 = OutputTag("tuple", Types.TUPLE([Types.SQL_TIMESTAMP(), Types.BIG_DEC()]))
tag3 = OutputTag("pickled", Types.PICKLED_BYTE_ARRAY())


class Sides(ProcessFunction):
    def process_element(self, value, ctx):
        yield tag, Row(value.name, [len(value.tags), 5])
        yield tag2, (datetime.datetime(2020, 1, 2, 3, 4, 5, 6000), decimal.Decimal("12.340"))
        yield tag3, {value.name}
        yield Row(value.name, len(value.tags))


sides = people.process(Sides(), Types.ROW([Types.STRING(), Types.LONG()]))
sides.print("main")
sides.get_side_output(tag).print("row")
sides.get_side_output(tag2).print("tuple")
sides.get_side_output(tag3).map(lambda v: type(v).__name__).print("pickled")
sides.get_side_output(tag).rebalance().map(lambda r: repr(r)).print("row again")
numbers = env.from_collection([1.0, 2.5], Types.DOUBLE())
numbers.print("double")
env.from_collection([(1.0, 2.0), (3.0, 4.5)], Types.TUPLE([Types.DOUBLE(), Types.FLOAT()])).print("as double")
env.from_collection([datetime.time(1, 2, 3)], Types.SQL_TIME()).print("time")
env.from_collection([Instant.of_epoch_milli(1234)], Types.INSTANT()).print("instant")
env.from_collection(
    [(Row(1, "a"), (2, "b"))],
    Types.TUPLE([Types.ROW([Types.INT(), Types.STRING()]), Types.TUPLE([Types.INT(), Types.STRING()])]),
).print("nested")
env.from_collection([Row(1, "a")], Types.ROW([Types.INT(), Types.STRING()])).union(
    env.from_collection([Row(2, "b")], Types.ROW([Types.INT(), Types.STRING()]))
).key_by(lambda r: r[0]).map(lambda r: repr(r)).print("union")


class State(KeyedProcessFunction):
    def open(self, runtime_context):
        self.row = runtime_context.get_state(
            ValueStateDescriptor("row", Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]))
        )
        self.tuples = runtime_context.get_list_state(
            ListStateDescriptor("tuples", Types.TUPLE([Types.INT(), Types.LIST(Types.STRING())]))
        )
        self.dates = runtime_context.get_map_state(MapStateDescriptor("dates", Types.SQL_DATE(), Types.BIG_DEC()))

    def process_element(self, value, ctx):
        before = self.row.value()
        self.row.update(Row(a=value, b=str(value)))
        self.tuples.add((value, [str(value)] * value))
        self.dates.put(datetime.date(2020, 1, value), decimal.Decimal(value) / 4)
        yield "%s %s %s" % (before.b if before else None, list(self.tuples.get()), sorted(self.dates.items()))


env.from_collection([1, 2, 3], Types.INT()).key_by(lambda v: 0, Types.INT()).process(State(), Types.STRING()).print(
    "state"
)


class Keys(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.n = runtime_context.get_state(ValueStateDescriptor("n", Types.INT()))

    def process_element1(self, value, ctx):
        self.n.update((self.n.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(5)

    def process_element2(self, value, ctx):
        self.n.update((self.n.value() or 0) + 10)
        ctx.timer_service().register_event_time_timer(5)

    def on_timer(self, timestamp, ctx):
        yield "%r %d" % (ctx.get_current_key(), self.n.value())


ints = env.from_collection([1, 2], Types.INT())
texts = env.from_collection(["1", "2", "2"], Types.STRING())
ints.connect(texts).key_by(lambda i: i, lambda s: int(s)).process(Keys()).print("co keys")
ints.connect(texts).key_by(lambda i: str(i), lambda s: s, Types.STRING()).process(Keys()).print("co typed keys")
ints.key_by(lambda i: (i, "x")).connect(texts.key_by(lambda s: (int(s), "x"))).process(Keys()).print("co tuples")
env.execute()
