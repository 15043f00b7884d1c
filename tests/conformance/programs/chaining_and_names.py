# compare: sorted-no-prefix
# Names, uids, descriptions, chaining hints and slot sharing change nothing in the results.
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
print(env.is_chaining_enabled())
ds = env.from_collection(list(range(6)), Types.INT()).name("source").uid("source-uid").set_description("six numbers")
out = (
    ds.map(lambda v: v + 1, Types.INT())
    .name("plus one")
    .uid("plus")
    .start_new_chain()
    .map(lambda v: v * 10, Types.INT())
    .disable_chaining()
    .set_buffer_timeout(10)
    .filter(lambda v: v != 30)
    .slot_sharing_group("default")
    .rebalance()
    .map(lambda v: "v%d" % v, Types.STRING())
    .name("text")
    .set_description("makes text")
)
print(out.get_name())
out.print("out").name("printer").disable_chaining()
env.disable_operator_chaining()
print(env.is_chaining_enabled())
env.execute("chains")
