"""Benchmarks: Flintstream beside the bare Python loop, PySpark's transformWithState, PyFlink and Bytewax.

Run by `python -m bench` or `make bench`; docs/benchmarks.md says what is measured.
"""

BENCHMARKS = (
    "keyed_count",
    "many_keys",
    "state_access",
    "timers",
    "windows",
    "cep",
    "chain",
    "scale",
    "transports",
    "latency",
    "epoch_latency",
    "startup",
    "memory",
    "async_io",
    "checkpoints",
    "recovery",
    "rocksdb",
    "state_processor",
    "expiry",
    "queryable",
    "kafka",
    "server",
)
"""Each is a module of this package with a function `run(quick)`, in the order in which they run."""
