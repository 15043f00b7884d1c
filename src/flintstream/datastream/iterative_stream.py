"""IterativeStream: the start of an iteration, to which results of later operators are fed back.

Imported from `flintstream.datastream`.
"""

from __future__ import annotations

from typing import Any, NoReturn

from flintstream.common.type_variables import A_co, B, B_co, R, T_co
from flintstream.common.typeinfo import TypeInformation
from flintstream.datastream.connected_streams import ConnectedStreams
from flintstream.datastream.data_stream import DataStream
from flintstream.datastream.settings import OperatorSettings, declared_output_type
from flintstream.graph.transformations import FeedbackTransformation, InvalidProgramException, Transformation
from flintstream.runtime.operators.iteration import IterationHead, IterationTail

_SETTINGS = (
    "get_name",
    "name",
    "uid",
    "set_uid_hash",
    "set_parallelism",
    "set_max_parallelism",
    "set_description",
    "slot_sharing_group",
)
"""The settings of an iteration, which are those of its head and its tails."""


class IterativeStream(DataStream[T_co]):
    """A stream with what is fed back to it, created by `iterate`. The iteration must be closed.

    Example::

        loop = numbers.iterate()
        halved = loop.map(lambda x: x // 2, Types.LONG())
        loop.close_with(halved.filter(lambda x: x >= 10))
        halved.filter(lambda x: x < 10).print()

    What is fed back keeps its own partitioning, and is not part of the watermark. Feedback is part of checkpoints.
    """

    def __init__(self, stream: DataStream[T_co], max_wait_time: int = 0) -> None:
        self._input = stream
        self._max_wait_time = _checked("iterate", max_wait_time)
        declared = stream._transformation.output_type
        super().__init__(stream._env, _feedback(stream, self._max_wait_time, declared, True))

    def close_with(self, feedback_stream: DataStream[T_co]) -> DataStream[T_co]:
        """Feeds a stream back to the start of the iteration, and returns it.

        Its parallelism must be that of the iteration. Several calls feed several streams back.

        Example::

            loop.close_with(halved.filter(lambda x: x >= 10))
        """
        return _close(self._env, self._transformation, feedback_stream)

    def with_feedback_type(
        self, feedback_type: TypeInformation[B] | None = None, max_wait_time: int | None = None
    ) -> ConnectedIterativeStreams[T_co, B]:
        """Returns the input of the iteration and its feedback as two connected streams, so that feedback may have a type of
        its own; None for any Python objects.

        Example::

            loop = orders.iterate().with_feedback_type(Types.STRING())
            results = loop.process(Retry())
            loop.close_with(results.get_side_output(again))
        """
        wait = self._max_wait_time if max_wait_time is None else _checked("with_feedback_type", max_wait_time)
        declared = declared_output_type("with_feedback_type", feedback_type)
        return ConnectedIterativeStreams(self._input, declared, wait)

    def _settings(self, method: str) -> OperatorSettings:
        if method not in _SETTINGS:
            raise InvalidProgramException(
                f"{method}() does not apply to an iteration: call it on an operator before iterate() or after it"
            )
        return OperatorSettings(self._env, self._transformation)


class ConnectedIterativeStreams(ConnectedStreams[A_co, B_co]):
    """The input of an iteration and what is fed back to it, processed by functions with two inputs; created by
    `with_feedback_type`.

        loop = orders.iterate().with_feedback_type(Types.STRING())
        loop.close_with(loop.map(Both()))
    """

    def __init__(self, stream: DataStream[A_co], feedback_type: TypeInformation | None, max_wait_time: int) -> None:
        transformation = _feedback(stream, max_wait_time, feedback_type, False)
        super().__init__(stream, DataStream(stream._env, transformation))

    def close_with(self, feedback_stream: DataStream[B_co]) -> DataStream[B_co]:
        """Feeds a stream back as the second input of the iteration, and returns it: `loop.close_with(again)`."""
        return _close(self.stream2._env, self.stream2._transformation, feedback_stream)

    def key_by(self, key_selector1: Any, key_selector2: Any, key_type: TypeInformation | None = None) -> NoReturn:
        """Refused: the partitioning is that of the input and of the feedback stream."""
        raise InvalidProgramException(
            "key_by: the partitioning of an iteration cannot be changed at its start: call key_by() on the input of "
            "iterate() and on the stream given to close_with(). For keyed state, use iterate() with one type instead: "
            "loop.key_by(...)"
        )


def _checked(method: str, max_wait_time: Any) -> int:
    if isinstance(max_wait_time, bool) or not isinstance(max_wait_time, int) or max_wait_time < 0:
        raise ValueError(f"{method}: max_wait_time must be milliseconds, at least 0, got {max_wait_time!r}")
    return max_wait_time


def _feedback(
    stream: DataStream[Any], max_wait_time: int, declared: TypeInformation | None, with_input: bool
) -> FeedbackTransformation:
    return FeedbackTransformation(
        stream._transformation, max_wait_time / 1000, IterationHead, IterationTail, declared, with_input
    )


def _close(env: Any, transformation: Transformation, stream: DataStream[R]) -> DataStream[R]:
    if not isinstance(stream, DataStream):
        raise TypeError(f"close_with: expected a DataStream, got {stream!r}")
    if stream._env is not env:
        raise InvalidProgramException("close_with: the streams belong to different environments")
    if not _originates(stream._transformation, transformation):
        raise InvalidProgramException(
            "close_with: an iteration can be closed only with a stream that originates from it, but "
            f"'{stream._transformation.name}' does not"
        )
    expected, given = transformation.output_type, stream._transformation.output_type
    if expected is not None and given is not None and given != expected:
        raise InvalidProgramException(
            f"close_with: the iteration has records of type {expected}, but the feedback stream has {given}: map it with "
            "that output_type, or use iterate().with_feedback_type(...)"
        )
    assert isinstance(transformation, FeedbackTransformation)
    transformation.add_feedback(stream._transformation)
    return stream


def _originates(stream: Transformation, iteration: Transformation) -> bool:
    pending, seen = [stream], set()
    while pending:
        at = pending.pop()
        if at is iteration:
            return True
        if at.id not in seen:
            seen.add(at.id)
            pending.extend(at.inputs)
    return False
