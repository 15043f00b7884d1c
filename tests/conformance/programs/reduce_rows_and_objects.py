# compare: sorted
# Reduce and the rolling aggregates on Rows, dicts, lists, dates and decimals; keys computed from Rows.
import datetime
import decimal

from flintstream.common import Row, Types
from flintstream.datastream import KeySelector, ReduceFunction, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
sale = Types.ROW_NAMED(["shop", "item", "price", "n"], [Types.STRING(), Types.STRING(), Types.DOUBLE(), Types.INT()])
sales = env.from_collection(
    [
        Row("s", "x", 2.5, 1),
        Row("s", "y", 1.5, 2),
        Row("t", "x", 4.0, 1),
        Row("s", "x", 9.0, 3),
        Row("t", "z", 4.0, 2),
        Row("s", "a", 1.5, 9),
    ],
    sale,
)


class ByShop(KeySelector):
    def get_key(self, value):
        return value["shop"]


class ByShopAndItem(KeySelector):
    def get_key(self, value):
        return Row(value.shop, value.item)


class Merge(ReduceFunction):
    def reduce(self, value1, value2):
        return Row(shop=value1.shop, item=value2.item, price=value1.price + value2.price, n=value1.n + value2.n)


class Mutate(ReduceFunction):
    def reduce(self, value1, value2):
        value1["n"] = value1["n"] + value2["n"]
        return value1


by_shop = sales.key_by(ByShop(), Types.STRING())
by_shop.reduce(Merge()).print("merge")
by_shop.reduce(Mutate()).print("mutate")
by_shop.sum("n").print("sum")
by_shop.sum(2).print("sum 2")
by_shop.min("price").print("min")
by_shop.min_by("price").print("min_by")
by_shop.max_by(3).print("max_by")
by_shop.max("item").print("max item")
sales.key_by(ByShopAndItem(), Types.ROW([Types.STRING(), Types.STRING()])).sum("n").print("two fields")
sales.key_by(lambda r: (r.shop, r.item)).reduce(lambda a, b: a).print("first")
sales.map(lambda r: r.as_dict(), Types.MAP(Types.STRING(), Types.PICKLED_BYTE_ARRAY())).map(
    lambda d: sorted(d.items())
).print("dict")
sales.map(lambda r: {"shop": r.shop, "n": r.n}).key_by(lambda d: d["shop"]).reduce(
    lambda a, b: {"shop": a["shop"], "n": a["n"] + b["n"]}
).print("dicts")
sales.map(lambda r: [r.shop, r.n]).key_by(lambda d: d[0]).reduce(lambda a, b: a + b[1:]).print("lists")
sales.map(lambda r: (r.shop, decimal.Decimal(str(r.price)))).key_by(lambda d: d[0]).sum(1).print("decimal")
sales.map(lambda r: (r.shop, datetime.date(2020, 1, r.n))).key_by(lambda d: d[0]).max(1).print("date")
sales.map(lambda r: (r.shop, r.item)).key_by(lambda d: d[0]).sum(1).print("strings")
sales.map(lambda r: (r.shop, r.price), Types.TUPLE([Types.STRING(), Types.DOUBLE()])).key_by(lambda d: d[0]).min_by(
    1
).print("typed min_by")
sales.map(lambda r: r.n, Types.INT()).key_by(lambda n: n % 2).sum().print("default position")
sales.map(lambda r: r.n, Types.INT()).key_by(lambda n: n % 2).max().print("default max")
env.execute()
