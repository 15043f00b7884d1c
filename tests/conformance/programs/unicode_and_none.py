# compare: exact
# Text outside ASCII, and None in fields and as an element.
from flintstream.common import Row, Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)

words = ["héllo", "Straße", "日本語", "emoji 🎉", "קצה", "e\u0301"]
env.from_collection(words, Types.STRING()).map(
    lambda w: (w.upper(), len(w)), Types.TUPLE([Types.STRING(), Types.INT()])
).print()
env.execute()

row = Types.ROW_NAMED(["name", "age", "tags"], [Types.STRING(), Types.INT(), Types.LIST(Types.STRING())])
rows = env.from_collection([Row("ñ", 1, ["ü"]), Row(None, None, None), Row("b", None, [])]).map(lambda r: r, row)
rows.print()
env.execute()
for value in rows.map(lambda r: "none" if r[0] is None else r[0], Types.STRING()).execute_and_collect():
    print(value)

print(list(env.from_collection([1, None, 2]).map(lambda v: v is None).execute_and_collect()))
print(list(env.from_collection([("a", None), (None, 1)]).filter(lambda t: t[0] is None).execute_and_collect()))
