# compare: exact
# The execution plan is JSON: the user's operators, their names and parallelism, how they are linked.
import json

from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
ds = env.from_collection([("a", 1), ("b", 2)], Types.TUPLE([Types.STRING(), Types.INT()])).name("numbers in")
doubled = (
    ds.map(lambda t: (t[0], t[1] * 2), Types.TUPLE([Types.STRING(), Types.INT()]))
    .name("double")
    .uid("double-uid")
    .set_parallelism(3)
)
kept = doubled.filter(lambda t: t[1] > 2).name("keep large").uid("keep-uid")
kept.print().name("to the screen").set_parallelism(1)

plan = json.loads(env.get_execution_plan())
print(sorted(plan))
nodes = plan["nodes"]
for node in nodes:
    print(sorted(node))
    print(
        node["type"],
        "|",
        node["pact"],
        "|",
        node["contents"],
        "|",
        node["parallelism"],
        [(p["ship_strategy"], p["side"]) for p in node.get("predecessors", [])],
    )
