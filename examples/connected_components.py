"""Connected components of a graph, by an iteration: each vertex tells its neighbours the smallest number it has heard of.

Every vertex begins with its own number. Whoever hears of a smaller one keeps it and passes it on, so in the end all
vertices of a component have the number of its smallest. Edges may arrive in any order, also while numbers go round. A
plain Python program finds the same components.

    flint demo connected_components
"""

import random

from flintstream.common import Types
from flintstream.datastream import KeyedProcessFunction, OutputTag, StreamExecutionEnvironment
from flintstream.datastream.state import MapStateDescriptor, ValueStateDescriptor

VERTICES, EDGES = 400, 160
EDGE, NUMBER = "edge", "number"
MESSAGE = Types.TUPLE([Types.STRING(), Types.INT(), Types.INT()])
FOUND = OutputTag("found", Types.TUPLE([Types.INT(), Types.INT()]))


def random_edges(seed=7):
    chance = random.Random(seed)
    return [(chance.randrange(VERTICES), chance.randrange(VERTICES)) for _ in range(EDGES)]


class Smallest(KeyedProcessFunction):
    """A vertex. It receives its edges and what its neighbours say, and emits messages for its neighbours."""

    def open(self, runtime_context):
        self.neighbours = runtime_context.get_map_state(MapStateDescriptor("neighbours", Types.INT(), Types.BOOLEAN()))
        self.smallest = runtime_context.get_state(ValueStateDescriptor("smallest", Types.INT()))

    def process_element(self, value, ctx):
        kind, vertex, other = value
        smallest = self.smallest.value()
        if smallest is None:
            smallest = vertex
            self.smallest.update(vertex)
            yield FOUND, (vertex, vertex)
        if kind == EDGE:
            self.neighbours.put(other, True)
            yield NUMBER, other, smallest
        elif other < smallest:
            self.smallest.update(other)
            yield FOUND, (vertex, other)
            for neighbour in self.neighbours:
                yield NUMBER, neighbour, other


def components(edges):
    """A stream of (vertex, number of its component), each time that the number becomes smaller."""
    both_ways = edges.flat_map(lambda edge: [(EDGE, edge[0], edge[1]), (EDGE, edge[1], edge[0])], MESSAGE)
    loop = both_ways.iterate()
    messages = loop.key_by(lambda message: message[1], Types.INT()).process(Smallest(), MESSAGE)
    loop.close_with(messages)
    return messages.get_side_output(FOUND)


def plain_components(edges):
    """The same by a plain Python program."""
    parent = {}

    def root(vertex):
        while parent.setdefault(vertex, vertex) != vertex:
            vertex = parent[vertex]
        return vertex

    for one, other in edges:
        low, high = sorted((root(one), root(other)))
        parent[high] = low
    return {vertex: root(vertex) for vertex in list(parent)}


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    edges = random_edges()
    found = {}
    with components(env.from_collection(edges)).execute_and_collect("connected components") as results:
        for vertex, number in results:
            found[vertex] = min(number, found.get(vertex, number))

    sizes = sorted((list(found.values()).count(number) for number in set(found.values())), reverse=True)
    print(f"{len(found)} vertices in {len(sizes)} components, the largest of {sizes[0]}")
    print(f"as a plain program finds them: {found == plain_components(edges)}")


if __name__ == "__main__":
    main()
