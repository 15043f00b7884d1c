"""Process functions, with access to time, timers, state and side outputs: on one stream, on two, or with a broadcast.

All are imported from `flintstream.datastream.functions`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Generic

from flintstream.common.output_tag import SideOutput
from flintstream.common.type_variables import IN, IN1, IN2, KEY, OUT, K, K_co, S, V
from flintstream.datastream.basic_functions import Function
from flintstream.datastream.state import BroadcastState, MapStateDescriptor, ReadOnlyBroadcastState, StateDescriptor
from flintstream.datastream.time_domain import TimeDomain
from flintstream.datastream.timerservice import TimerService
from flintstream.runtime.operators.broadcast import BroadcastContext, ElementContext, KeyedBroadcastContext
from flintstream.runtime.operators.process import ProcessContext

Results = Iterable[OUT | SideOutput] | None
"""What a process function gives: records, and side outputs among them."""


class _TimedContext(ABC):
    """The part shared by the contexts of all process functions: the record's timestamp and the time."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """Returns the timer service: the current time, and on keyed streams timers."""

    @abstractmethod
    def timestamp(self) -> int | None:
        """Returns the timestamp of the current record or timer in milliseconds; None if it has none."""


class _KeyedContext(_TimedContext, Generic[K_co]):
    """The context on a keyed stream."""

    @abstractmethod
    def get_current_key(self) -> K_co:
        """Returns the key of the current record or timer."""


class _OnTimerContext(_KeyedContext[K_co]):
    """The context of a timer."""

    @abstractmethod
    def time_domain(self) -> TimeDomain:
        """Returns whether the timer is in event time or in processing time."""


class ProcessFunction(Function, Generic[IN, OUT]):
    """Maps each record to any number of results, to the main output or, as `(tag, value)`, to a side output.

    Example::

        class Split(ProcessFunction):
            def process_element(self, value, ctx):
                if value < 0:
                    yield negative, value  # negative = OutputTag("negative")
                else:
                    yield value
    """

    class Context(_TimedContext):
        """Information about the current record; valid only during the call."""

    @abstractmethod
    def process_element(self, value: IN, ctx: ProcessFunction.Context) -> Results[OUT]:
        """Returns the results for a record: a generator, any iterable, or None for none."""


class KeyedProcessFunction(Function, Generic[KEY, IN, OUT]):
    """A process function on a keyed stream, with state and timers per key.

    Example::

        class CountPerKey(KeyedProcessFunction):
            def open(self, runtime_context):
                self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

            def process_element(self, value, ctx):
                count = (self.count.value() or 0) + 1
                self.count.update(count)
                yield ctx.get_current_key(), count
    """

    class Context(_KeyedContext[K_co]):
        """Information about the current record; valid only during the call."""

    class OnTimerContext(_OnTimerContext[K_co]):
        """Information about the current timer; valid only during the call."""

    @abstractmethod
    def process_element(self, value: IN, ctx: KeyedProcessFunction.Context[KEY]) -> Results[OUT]:
        """Returns the results for a record: a generator, any iterable, or None for none."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext[KEY]) -> Results[OUT]:
        """Returns the results of a timer that fires, with the state of the timer's key."""
        return None


class CoProcessFunction(Function, Generic[IN1, IN2, OUT]):
    """A process function over two connected streams.

    Example::

        class Tag(CoProcessFunction):
            def process_element1(self, value, ctx):
                yield "left", value

            def process_element2(self, value, ctx):
                yield "right", value
    """

    class Context(_TimedContext):
        """Information about the current record; valid only during the call."""

    @abstractmethod
    def process_element1(self, value: IN1, ctx: CoProcessFunction.Context) -> Results[OUT]:
        """Returns the results for a record of the first stream."""

    @abstractmethod
    def process_element2(self, value: IN2, ctx: CoProcessFunction.Context) -> Results[OUT]:
        """Returns the results for a record of the second stream."""


class KeyedCoProcessFunction(Function, Generic[KEY, IN1, IN2, OUT]):
    """A process function over two connected keyed streams, which share the state of a key.

    Example::

        class Match(KeyedCoProcessFunction):
            def open(self, runtime_context):
                self.order = runtime_context.get_state(ValueStateDescriptor("order", Types.STRING()))

            def process_element1(self, value, ctx):
                self.order.update(value)

            def process_element2(self, value, ctx):
                yield self.order.value(), value
    """

    class Context(_KeyedContext[K_co]):
        """Information about the current record; valid only during the call."""

    class OnTimerContext(_OnTimerContext[K_co]):
        """Information about the current timer; valid only during the call."""

    @abstractmethod
    def process_element1(self, value: IN1, ctx: KeyedCoProcessFunction.Context[KEY]) -> Results[OUT]:
        """Returns the results for a record of the first stream."""

    @abstractmethod
    def process_element2(self, value: IN2, ctx: KeyedCoProcessFunction.Context[KEY]) -> Results[OUT]:
        """Returns the results for a record of the second stream."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext[KEY]) -> Results[OUT]:
        """Returns the results of a timer that fires, with the state of the timer's key."""
        return None


class BaseBroadcastProcessFunction(Function):
    """The part shared by both kinds of broadcast process functions."""

    class BaseContext(ABC):
        """The time and the record's timestamp."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Returns the timestamp of the current record in milliseconds; None if it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Returns the slot's clock, in milliseconds since 1970."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Returns the current watermark of the operator."""

    class Context(BaseContext):
        """The context on the broadcast side, with write access to broadcast state."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> BroadcastState[K, V]:
            """Returns a broadcast state by its descriptor."""

    class ReadOnlyContext(BaseContext):
        """The context on the non-broadcast side, with read access to broadcast state."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> ReadOnlyBroadcastState[K, V]:
            """Returns a broadcast state by its descriptor, read-only."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """Processes a stream connected with a broadcast stream, e.g. events and rules.

    Example::

        class Apply(BroadcastProcessFunction):
            def process_element(self, value, ctx):
                yield value, ctx.get_broadcast_state(rules).get(value.kind)

            def process_broadcast_element(self, value, ctx):
                ctx.get_broadcast_state(rules).put(value.kind, value)
    """

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """The context on the broadcast side."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """The context on the non-broadcast side."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Results[OUT]:
        """Returns the results for a record of the non-broadcast stream."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: BroadcastProcessFunction.Context) -> Results[OUT]:
        """Returns the results for a record of the broadcast stream; must update state identically in every subtask."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """Processes a keyed stream connected with a broadcast stream, with keyed state and timers on the keyed side.

    Example::

        class Forget(KeyedBroadcastProcessFunction):
            def open(self, runtime_context):
                self.count = runtime_context.get_state(counts)  # a ValueStateDescriptor

            def process_element(self, value, ctx):
                self.count.update((self.count.value() or 0) + 1)
                yield ctx.get_current_key(), self.count.value()

            def process_broadcast_element(self, value, ctx):
                ctx.apply_to_keyed_state(counts, lambda key, count: count.clear())
    """

    class Context(BaseBroadcastProcessFunction.Context, ABC, Generic[K_co]):
        """The context on the broadcast side."""

        @abstractmethod
        def apply_to_keyed_state(
            self, state_descriptor: StateDescriptor[S], function: Callable[[K_co, S], object]
        ) -> None:
            """Calls `function(key, state)` for every key of this subtask that has an entry in the state."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC, Generic[K_co]):
        """The context on the keyed side."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Returns the timer service for the current key."""

        @abstractmethod
        def get_current_key(self) -> K_co:
            """Returns the key of the current record."""

    class OnTimerContext(ReadOnlyContext[K_co], ABC):
        """The context of a timer."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Returns whether the timer is in event time or in processing time."""

        @abstractmethod
        def get_current_key(self) -> K_co:
            """Returns the key of the current timer."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext[KEY]) -> Results[OUT]:
        """Returns the results for a record of the keyed stream."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: KeyedBroadcastProcessFunction.Context[KEY]) -> Results[OUT]:
        """Returns the results for a record of the broadcast stream; must update state identically in every subtask."""

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext[KEY]) -> Results[OUT]:
        """Returns the results of a timer that fires, with the state of the timer's key."""
        return None


# The runtime does not import this layer, so its contexts are registered as subclasses.
for _public, _own in (
    (ProcessFunction.Context, ProcessContext),
    (KeyedProcessFunction.Context, ProcessContext),
    (KeyedProcessFunction.OnTimerContext, ProcessContext),
    (CoProcessFunction.Context, ProcessContext),
    (KeyedCoProcessFunction.Context, ProcessContext),
    (KeyedCoProcessFunction.OnTimerContext, ProcessContext),
    (BroadcastProcessFunction.Context, BroadcastContext),
    (BroadcastProcessFunction.ReadOnlyContext, ElementContext),
    (KeyedBroadcastProcessFunction.Context, KeyedBroadcastContext),
    (KeyedBroadcastProcessFunction.ReadOnlyContext, ElementContext),
    (KeyedBroadcastProcessFunction.OnTimerContext, ElementContext),
):
    _public.register(_own)
