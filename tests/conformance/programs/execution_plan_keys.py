# compare: exact
# Plans show the operators that take out keys, and those that put them aside again.
import json

from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


def show(env):
    nodes = json.loads(env.get_execution_plan())["nodes"]
    places = {node["id"]: place for place, node in enumerate(nodes)}
    for node in nodes:
        before = [(places[p["id"]], p["ship_strategy"]) for p in node.get("predecessors", [])]
        print(node["type"], node["pact"], node["parallelism"], before)


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
pairs = env.from_collection([("a", 1), ("b", 2)], PAIR).name("pairs")
keyed = pairs.key_by(lambda pair: pair[0], Types.STRING())
keyed.map(lambda pair: pair, PAIR).name("first").set_parallelism(3).print().set_parallelism(1)
show(env)

print("union and sinks of keyed streams")
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
one = env.from_collection([("a", 1)], PAIR).key_by(lambda pair: pair[0], Types.STRING())
two = env.from_collection([("b", 1)], PAIR).key_by(lambda pair: pair[0], Types.STRING())
one.union(two).print()
show(env)
