"""A cursor of PyMySQL that streams its rows; imported only where PyMySQL is installed."""

from __future__ import annotations

from pymysql.cursors import SSCursor  # type: ignore[import-untyped]


class StreamingCursor(SSCursor):  # type: ignore[misc]
    """A streaming cursor that can be abandoned in the middle of its result: close the connection, then the cursor.

    PyMySQL's own would then try to read the rows that are left, from a connection that is closed.
    """

    def close(self) -> None:
        result = self._result
        if result is not None and self.connection is not None and not self.connection.open:
            result.unbuffered_active = False
        super().close()

    __del__ = close
