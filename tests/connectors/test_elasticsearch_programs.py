"""A whole program on Spark that ends in Elasticsearch, whose server is killed on the way."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.waiting import wait_until

from flintstream.common import RestartStrategies, Types, WatermarkStrategy
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.elasticsearch import Elasticsearch7SinkBuilder, ElasticsearchEmitter
from flintstream.datastream.connectors.number_seq import NumberSequenceSource

from .search_servers import ElasticsearchServer

pytestmark = pytest.mark.timeout(900)  # The server may have to be downloaded first.

LAST = 3000


def slowly_squared(number: int) -> dict[str, Any]:
    time.sleep(0.0005)  # So that there are several epochs.
    return {"id": number, "n": number * number}


def test_a_server_killed_on_the_way_loses_and_doubles_nothing(
    env: StreamExecutionEnvironment, elasticsearch: ElasticsearchServer
) -> None:
    """Without retries in the sink, the job fails, and is restored until the server is back."""
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(1000, 100))
    env.enable_checkpointing(200)
    numbers = env.from_source(NumberSequenceSource(1, LAST), WatermarkStrategy.no_watermarks(), "numbers")
    sink = (
        Elasticsearch7SinkBuilder()
        .set_hosts(elasticsearch.url)
        .set_emitter(ElasticsearchEmitter.static_index("squares", "id"))
        .set_connection_timeout(60_000)
        .build()
    )
    numbers.map(slowly_squared, Types.MAP(Types.STRING(), Types.LONG())).sink_to(sink).name("to the index")
    running = env.execute_async()
    wait_until(lambda: elasticsearch.written() > 100, what="the first squares")
    elasticsearch.restart(crash=True)
    running.get_job_execution_result().result()
    found = {document["id"]: document["n"] for document in elasticsearch.documents("squares")}
    elasticsearch.request("DELETE", "squares")
    assert found == {number: number * number for number in range(1, LAST + 1)}
