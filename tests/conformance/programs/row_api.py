# compare: exact
# Row and RowKind in plain Python, and rows of several kinds in a stream.
from flintstream.common import Row, RowKind, Types
from flintstream.datastream import StreamExecutionEnvironment

named = Row(name="Ann", age=31)
plain = Row("Ann", 31)
print(repr(named), repr(plain), named == plain, len(named), list(named))
print(named.name, named["age"], named[0], "name" in named, "Ann" in named, "Ann" in plain)
print(named.as_dict(), Row(a=1, b=Row(c=2)).as_dict(True))
Person = Row("name", "age")
print(repr(Person), repr(Person("Bob", 2)), Person("Bob", 2).age)
named["age"] = 32
try:
    named.name = "Zoe"
except AttributeError:
    print("fields are not set as attributes")
print(named, named.get_row_kind(), RowKind.DELETE, named.get_fields_by_names(["age", "name"]))
plain.set_field_names(["x", "y"])
print(plain, plain.x)
changed = Row.of_kind(RowKind.UPDATE_AFTER, 1, "one")
print(changed, changed.get_row_kind(), changed == Row(1, "one"), hash(Row(1)) == hash(Row(1)))
try:
    Row("a", b=1)
except ValueError:
    print("values and names together are refused")
try:
    print(Row(a=1).missing)
except AttributeError:
    print("no attribute")

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection(
    [changed, Row.of_kind(RowKind.DELETE, 2, "two"), Row(3, "three")], Types.ROW([Types.INT(), Types.STRING()])
)
ds.print()
env.execute()
for row in ds.map(lambda r: (str(r.get_row_kind()), r[0])).execute_and_collect():
    print(row)
