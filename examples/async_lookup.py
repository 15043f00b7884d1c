"""Asks a service about each record, with many questions under way at a time.

Orders come in, prices are elsewhere: behind a connection that takes its time, and fails now and then. One after the other
the questions would take seconds; here they wait together.
"""

import asyncio
import random
from dataclasses import dataclass

from flintstream.common import Time, Types
from flintstream.datastream import AsyncDataStream, AsyncFunction, AsyncRetryStrategy, StreamExecutionEnvironment

PRICES = {"tea": 4.5, "cake": 6.0, "soup": 7.2}


@dataclass(frozen=True)
class Order:
    number: int
    item: str


class PriceService:
    """Stands for a client of a database or a web service: it belongs to the event loop on which it was made."""

    @classmethod
    async def connect(cls):
        await asyncio.sleep(0.01)
        return cls()

    async def price(self, item):
        await asyncio.sleep(60 if item == "caviar" else random.uniform(0.02, 0.04))
        if random.random() < 0.1:
            raise ConnectionError("the service is busy")
        return PRICES.get(item)

    async def disconnect(self):
        await asyncio.sleep(0.01)


class LookUpPrice(AsyncFunction):
    # open() and close() may be coroutines: they run on the same loop as async_invoke().
    async def open(self, runtime_context):
        self.service = await PriceService.connect()

    async def async_invoke(self, order):
        price = await self.service.price(order.item)
        # Any number of results for a record: here none for an item that has no price.
        return [] if price is None else [(order.number, order.item, price)]

    def timeout(self, order):
        """Called when the answer takes too long; without this method the job would fail."""
        return [(order.number, order.item, -1.0)]

    async def close(self):
        await self.service.disconnect()


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    items = ["tea", "cake", "soup", "stone"]
    orders = [Order(number, items[number % 4]) for number in range(400)] + [Order(400, "caviar")]

    try_again = AsyncRetryStrategy.fixed_delay(
        max_attempts=10,
        backoff_time_millis=20,
        result_predicate=None,
        exception_predicate=lambda error: isinstance(error, ConnectionError),
    )
    # unordered_wait_with_retry() would give each result as soon as it is there.
    priced = AsyncDataStream.ordered_wait_with_retry(
        env.from_collection(orders),
        LookUpPrice(),
        Time.seconds(1),
        try_again,
        capacity=100,
        output_type=Types.TUPLE([Types.INT(), Types.STRING(), Types.DOUBLE()]),
    )
    with priced.execute_and_collect("prices") as results:
        rows = list(results)
    for row in [*rows[:3], *rows[-2:]]:
        print(*row)
    print(len(rows), "prices, in order:", rows == sorted(rows))


if __name__ == "__main__":
    main()
