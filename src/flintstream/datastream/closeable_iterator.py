"""CloseableIterator: the results of `execute_and_collect`. Imported from
`flintstream.datastream.data_stream`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic

from flintstream.common.type_variables import T_co


class CloseableIterator(Generic[T_co]):
    """Iterates over the records of a stream as the running job delivers them.

        with stream.execute_and_collect() as results:
            for value in results:
                print(value)

    The iterator ends with the job, and raises the job's failure. `close` cancels a job that is still running.
    """

    def __init__(self, client: Any, collector_id: str) -> None:
        self._client = client
        self._collector_id = collector_id
        self._records: Iterator[T_co] | None = client.iterate(collector_id)

    def __iter__(self) -> CloseableIterator[T_co]:
        return self

    def __next__(self) -> T_co:
        return self.next()

    def __enter__(self) -> CloseableIterator[T_co]:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def next(self) -> T_co:
        """Returns the next record; raises StopIteration at the end."""
        if self._records is None:
            raise StopIteration("No more data.")
        for record in self._records:
            return record
        self._records = None
        self._client.get_job_execution_result().result()  # raises the failure of a job that failed
        raise StopIteration("No more data.")

    def close(self) -> None:
        """Cancels the job if it is still running; idempotent."""
        if self._records is None:
            return
        self._records = None
        abandon = getattr(self._client, "abandon", None)
        if abandon is not None:
            abandon(self._collector_id)
        if not self._client.get_job_status().result().is_terminal_state():
            self._client.cancel().result()

    def get_job_client(self) -> Any:
        """Returns the client of the job."""
        return self._client
