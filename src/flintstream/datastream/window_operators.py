"""Which operator runs a program's windows: the fast one for windows that all keys share, or the general one."""

from __future__ import annotations

from flintstream.datastream.triggers import EventTimeTrigger, ProcessingTimeTrigger
from flintstream.datastream.window_assigners import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flintstream.datastream.window_types import TimeWindow
from flintstream.runtime.windows.aligned import AlignedWindowOperator
from flintstream.runtime.windows.base import WindowBase
from flintstream.runtime.windows.operator import WindowOperator
from flintstream.runtime.windows.parts import WindowParts

# Only our own classes: a subclass may do as it likes.
_TUMBLING = (TumblingEventTimeWindows, TumblingProcessingTimeWindows)
_SLIDING = (SlidingEventTimeWindows, SlidingProcessingTimeWindows)


def window_operator(parts: WindowParts, in_memory: bool = True) -> WindowBase:
    """The operator for windows as a program has described them.

    The fast one holds its windows in memory; where state may be larger than that, the general one is used for all.
    """
    if parts.evictor is not None:
        return WindowOperator(parts.for_evictor())
    assigner = parts.assigner
    at_the_end = EventTimeTrigger if assigner.is_event_time() else ProcessingTimeTrigger
    if type(parts.trigger) is not at_the_end or not in_memory:
        return WindowOperator(parts, TimeWindow if isinstance(assigner, _TUMBLING + _SLIDING) else None)
    if type(assigner) in _TUMBLING:
        return AlignedWindowOperator(parts, TimeWindow, assigner._size, assigner._size, assigner._offset)
    if type(assigner) in _SLIDING:
        return AlignedWindowOperator(parts, TimeWindow, assigner._size, assigner._slide, assigner._offset)
    return WindowOperator(parts)
