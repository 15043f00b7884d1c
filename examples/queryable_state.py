"""Queryable state: the state of a running job, read from outside while it runs.

One function makes its counts queryable by its descriptor; the last order of each product is written into state of its own by
`as_queryable_state`. A client asks for both, over the network, as another program or a web page's server would.
"""

import time

from flintstream.common import Configuration, Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.functions import SourceFunction
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.queryable_state import (
    QueryableStateClient,
    UnknownKeyOrNamespaceException,
    UnsupportedOperationException,
)

ORDERS = [("tea", 2), ("cake", 1), ("tea", 5), ("soup", 3), ("cake", 4), ("tea", 1)]
ORDER = Types.TUPLE([Types.STRING(), Types.LONG()])
COUNT = ValueStateDescriptor("count", Types.LONG())


class Orders(SourceFunction):
    """A shop: some orders, and then silence until the job is cancelled."""

    def __init__(self):
        self.is_open = True

    def run(self, ctx):
        for order in ORDERS:
            ctx.collect(order)
        while self.is_open:
            time.sleep(0.01)

    def cancel(self):
        self.is_open = False


class Count(KeyedProcessFunction):
    """Counts the pieces of each product."""

    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("count", Types.LONG())
        descriptor.set_queryable("pieces")
        self.count = runtime_context.get_state(descriptor)

    def process_element(self, order, ctx):
        self.count.update((self.count.value() or 0) + order[1])


def pieces(client, job_id, product):
    """What the job has counted so far; 0 for a product that it has not seen yet."""
    try:
        return client.get_kv_state(job_id, "pieces", product, Types.STRING(), COUNT).result().value()
    except UnknownKeyOrNamespaceException:
        return 0


def main():
    configuration = Configuration()
    configuration.set_string("queryable-state.enable", "true")
    configuration.set_string("queryable-state.proxy.ports", "0")  # any free port; 9069 and the following unless set
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    orders = env.add_source(Orders(), type_info=ORDER).key_by(lambda order: order[0], Types.STRING())
    orders.process(Count()).name("count")
    orders.as_queryable_state("last order").name("last order")
    job = env.execute_async("shop")

    host, port = job.get_queryable_state_address()
    with QueryableStateClient(host, port, timeout=60) as client:
        job_id = job.get_job_id()
        while [pieces(client, job_id, product) for product in ("tea", "cake", "soup")] != [8, 5, 3]:
            time.sleep(0.05)
        print("tea:", pieces(client, job_id, "tea"), "cake:", pieces(client, job_id, "cake"))
        last = client.get_kv_state(job_id, "last order", "tea").result()
        print("last order of tea:", last.value())
        try:
            last.update(("tea", 0))
        except UnsupportedOperationException as error:
            print("not changed:", error)
    # Without a network, from the program itself:
    print("soup:", job.query_state("pieces", "soup").result().value())
    job.cancel().result()


if __name__ == "__main__":
    main()
