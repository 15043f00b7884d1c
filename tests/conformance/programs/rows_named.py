# compare: exact
# Rows with named fields: access by name, by position, by attribute; what collect gives back.
from flintstream.common import Row, Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)

person = Types.ROW_NAMED(["name", "age", "city"], [Types.STRING(), Types.INT(), Types.STRING()])
people = env.from_collection([Row("Ann", 31, "Oslo"), Row("Bob", 25, "Riga"), Row("Cid", 40, None)], person)

people.print()
env.execute("rows")

seen = people.map(lambda r: (r.name, r["age"], r[2], len(r), type(r).__name__))
for item in seen.execute_and_collect():
    print(item)

for row in people.filter(lambda r: r["age"] > 30).execute_and_collect():
    print(repr(row), row.name, row.as_dict())

older = people.map(lambda r: Row(name=r.name.upper(), age=r.age + 1, city=r.city), person)
for row in older.execute_and_collect():
    print(row, row.age)
