"""Queryable state: reads the keyed state of a running job from outside, as with Flink's client.

client = QueryableStateClient("localhost", 9069)
state = client.get_kv_state(job_id, "counts", "tea", Types.STRING(), descriptor).result()
state.value()
"""

from flintstream.common.queryable_state import (
    FlinkJobNotFoundException,
    QueryableStateError,
    StateNotAvailableException,
    UnknownKeyOrNamespaceException,
    UnknownKvStateLocation,
    UnsupportedOperationException,
)
from flintstream.queryable_state.client import QueryableStateClient
from flintstream.runtime.state.read_only import (
    ImmutableAggregatingState,
    ImmutableListState,
    ImmutableMapState,
    ImmutableReducingState,
    ImmutableState,
    ImmutableValueState,
)

__all__ = [
    "FlinkJobNotFoundException",
    "ImmutableAggregatingState",
    "ImmutableListState",
    "ImmutableMapState",
    "ImmutableReducingState",
    "ImmutableState",
    "ImmutableValueState",
    "QueryableStateClient",
    "QueryableStateError",
    "StateNotAvailableException",
    "UnknownKeyOrNamespaceException",
    "UnknownKvStateLocation",
    "UnsupportedOperationException",
]
