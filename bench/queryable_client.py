"""The client of the benchmark `queryable`, in a process of its own.

Called with host, port, job id and state; each line of its input, `KEYS RATE SECONDS`, is answered by a line of JSON: the
latencies of all queries in seconds, how many have failed, and the CPU time of this process for them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from flintstream.queryable_state import QueryableStateClient

_TICK_SECONDS = 0.01


def main() -> None:
    """Serves its input until it ends."""
    host, port, job_id, name = sys.argv[1:]
    with QueryableStateClient(host, int(port), timeout=60.0) as client:
        for line in sys.stdin:
            keys, rate, seconds = line.split()
            answer = _ask(lambda key: client.get_kv_state(job_id, name, key), int(keys), float(rate), float(seconds))
            print(json.dumps(answer), flush=True)


def _ask(get: Callable[[int], Any], keys: int, rate: float, seconds: float) -> dict[str, Any]:
    """Asks at a steady rate, some queries every hundredth of a second, whatever the answers take."""
    latencies: list[float] = []
    failures: list[str] = []
    futures = []
    began, cpu, sent = time.perf_counter(), time.process_time(), 0
    while (now := time.perf_counter()) < began + seconds:
        while sent < (now - began) * rate:
            asked = time.perf_counter()
            future = get(sent * 7919 % keys)
            future.add_done_callback(lambda _, asked=asked: latencies.append(time.perf_counter() - asked))
            futures.append(future)
            sent += 1
        time.sleep(_TICK_SECONDS)
    for future in futures:
        error = future.exception(120.0)
        if error is not None:
            failures.append(repr(error))
    spent = time.perf_counter() - began
    return {
        "latencies": latencies,
        "failures": failures,
        "cpu": time.process_time() - cpu,
        "rate": sent / spent,
    }


if __name__ == "__main__":
    main()
