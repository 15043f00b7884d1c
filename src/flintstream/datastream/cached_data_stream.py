"""CachedDataStream: a stream that is computed once, and read by several jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from flintstream.common.type_variables import T_co
from flintstream.datastream.data_stream import DataStream
from flintstream.graph.transformations import CacheTransformation, InvalidProgramException
from flintstream.runtime.operators.cache import CacheOperator, CacheSourceOperator, StreamCache

if TYPE_CHECKING:
    from flintstream.datastream.stream_execution_environment import StreamExecutionEnvironment


class CachedDataStream(DataStream[T_co]):
    """A stream whose records are stored when a job first computes them, and read by the later jobs of its environment.

    The records are in Spark's storage, on the disks of the executors. If some are lost there, the next job computes them
    again. Only batch mode fills a cache; in streaming mode a filled one is read, and the stream is computed otherwise.

    Example::

        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
        words = env.read_text_file("/data/book.txt").flat_map(str.split, Types.STRING()).cache()
        words.print()
        env.execute()  # Reads the file.
        words.filter(str.isupper).print()
        env.execute()  # Does not.
        words.invalidate()
    """

    def __init__(
        self, env: StreamExecutionEnvironment, transformation: CacheTransformation, cache: StreamCache
    ) -> None:
        super().__init__(env, transformation)
        self._cache = cache

    @classmethod
    def of(cls, stream: DataStream[T_co]) -> CachedDataStream[T_co]:
        """Returns a stream, cached."""
        cache = StreamCache()
        recorded = CacheTransformation(stream._transformation, cache, CacheOperator(cache), CacheSourceOperator())
        stream._env._caches.append(cache)
        return cls(stream._env, recorded, cache)

    def invalidate(self) -> None:
        """Removes the stored records, once no running job reads them any more. The next job computes them again."""
        self._cache.invalidate()

    def _settings(self, method: str) -> NoReturn:
        raise InvalidProgramException(f"{method}() is not possible on a cached stream: call it before cache()")
