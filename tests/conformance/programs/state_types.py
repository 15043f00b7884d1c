# compare: exact
# State of composite and pickled types gives back what was stored.
from dataclasses import dataclass

from flintstream.common import Row, Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor


@dataclass
class Account:
    owner: str
    balance: int = 0


class Keep(KeyedProcessFunction):
    def open(self, runtime_context):
        self.account = runtime_context.get_state(ValueStateDescriptor("account", Types.PICKLED_BYTE_ARRAY()))
        self.row = runtime_context.get_state(
            ValueStateDescriptor("row", Types.ROW_NAMED(["n", "tags"], [Types.INT(), Types.LIST(Types.STRING())]))
        )
        self.pairs = runtime_context.get_list_state(
            ListStateDescriptor("pairs", Types.TUPLE([Types.STRING(), Types.DOUBLE()]))
        )
        self.by_pair = runtime_context.get_map_state(
            MapStateDescriptor("by_pair", Types.TUPLE([Types.STRING(), Types.INT()]), Types.FLOAT())
        )

    def process_element(self, value, ctx):
        row = self.row.value()
        yield "%r %r %r %r" % (
            self.account.value(),
            None if row is None else (row[0], row[1]),
            list(self.pairs.get()),
            sorted(self.by_pair.items()),
        )
        account = self.account.value() or Account(ctx.get_current_key())
        account.balance += value[1]
        self.account.update(account)
        self.row.update(Row(value[1], ["t%d" % value[1]]))
        self.pairs.add(("p", value[1] / 4))
        self.by_pair.put((value[0], value[1] % 2), value[1] + 0.5)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection([("x", 1), ("y", 2), ("x", 3), ("x", 5)]).key_by(lambda t: t[0]).process(
    Keep(), Types.STRING()
).print()
env.execute()
