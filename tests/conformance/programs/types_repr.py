# compare: exact
# Type information: how types are written, compared, and inferred for streams.
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

for type_info in [
    Types.STRING(),
    Types.INT(),
    Types.LONG(),
    Types.DOUBLE(),
    Types.FLOAT(),
    Types.BOOLEAN(),
    Types.BYTE(),
    Types.SHORT(),
    Types.CHAR(),
    Types.BIG_INT(),
    Types.BIG_DEC(),
    Types.SQL_DATE(),
    Types.SQL_TIME(),
    Types.SQL_TIMESTAMP(),
    Types.INSTANT(),
    Types.PICKLED_BYTE_ARRAY(),
    Types.PRIMITIVE_ARRAY(Types.INT()),
    Types.BASIC_ARRAY(Types.STRING()),
    Types.OBJECT_ARRAY(Types.STRING()),
    Types.LIST(Types.INT()),
    Types.MAP(Types.STRING(), Types.INT()),
    Types.TUPLE([Types.STRING(), Types.INT()]),
    Types.ROW([Types.STRING(), Types.INT()]),
    Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.INT()]),
]:
    print(type_info)

row = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.INT()])
print(row.get_field_names(), [str(t) for t in row.get_field_types()])
print(Types.INT() == Types.INT(), Types.INT() == Types.LONG(), Types.LIST(Types.INT()) == Types.LIST(Types.INT()))
print(Types.ROW([Types.INT()]) == Types.ROW([Types.INT()]), Types.ROW([Types.INT()]).get_field_names())

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
ds = env.from_collection([("a", 1)], Types.TUPLE([Types.STRING(), Types.INT()]))
print("source", ds.get_type())
print("untyped source", env.from_collection([1]).get_type())
print("map", ds.map(lambda t: t).get_type())
print("typed map", ds.map(lambda t: t, row).get_type())
print("filter", ds.filter(lambda t: True).get_type())
print("sum", ds.key_by(lambda t: t[0]).sum(1).get_type())
print("project", ds.project(1).get_type())
print("union", ds.union(ds).get_type())
