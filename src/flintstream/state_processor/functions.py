"""The functions that a user of the state processor writes: to read state, and to bootstrap it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from flintstream.datastream.basic_functions import Function
from flintstream.runtime.state.checkpointed import CheckpointedFunction

if TYPE_CHECKING:
    from flintstream.datastream.state import BroadcastState, MapStateDescriptor
    from flintstream.runtime.time.timers import TimerService
    from flintstream.runtime.windows.namespaces import StateStore

IN = TypeVar("IN")
OUT = TypeVar("OUT")
K = TypeVar("K")
W = TypeVar("W")


class Collector(Protocol):
    """Takes the results of a reader function."""

    def collect(self, value: Any) -> None:
        """Adds a result."""


class KeyedStateReaderFunction(Function, ABC, Generic[K, OUT]):
    """Reads the keyed state of an operator: `read_key` is called for each key with an entry in one of its states.

    Example::

        class ReadCounts(KeyedStateReaderFunction):
            def open(self, runtime_context):
                self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

            def read_key(self, key, ctx, out):
                out.collect(Row(key, self.count.value(), len(ctx.registered_event_time_timers())))

    All states must be requested in `open`. Results may also be returned or yielded. The function runs in several
    processes, and is opened once for each range of key groups; changes of state are not stored.
    """

    class Context(ABC):
        """The timers of the current key."""

        @abstractmethod
        def registered_event_time_timers(self) -> set[int]:
            """Returns the timestamps of the event-time timers."""

        @abstractmethod
        def registered_processing_time_timers(self) -> set[int]:
            """Returns the timestamps of the processing-time timers."""

    @abstractmethod
    def read_key(self, key: K, ctx: KeyedStateReaderFunction.Context, out: Collector) -> Iterable[OUT] | None:
        """Called for each key, with its state."""


class WindowReaderFunction(Function, ABC, Generic[IN, OUT, K, W]):
    """Reads the windows of an operator: `read_window` is called for each open window of each key.

    Example::

        class ReadWindows(WindowReaderFunction):
            def read_window(self, key, context, elements, out):
                out.collect(Row(key, context.window().start, sum(elements)))

    Results may also be returned or yielded.
    """

    class Context(ABC):
        """The current window, and what is stored with it."""

        @abstractmethod
        def window(self) -> Any:
            """Returns the window."""

        @abstractmethod
        def trigger_state(self, descriptor: Any) -> Any:
            """Returns the state of the trigger for this window."""

        @abstractmethod
        def window_state(self) -> StateStore:
            """Returns the state of the window function for this window."""

        @abstractmethod
        def global_state(self) -> StateStore:
            """Returns the state of the window function for this key."""

        @abstractmethod
        def registered_event_time_timers(self) -> set[int]:
            """Returns the timestamps of the window's event-time timers; windows that fire at their end need none."""

        @abstractmethod
        def registered_processing_time_timers(self) -> set[int]:
            """Returns the timestamps of the window's processing-time timers."""

    @abstractmethod
    def read_window(
        self, key: K, context: WindowReaderFunction.Context, elements: Iterable[IN], out: Collector
    ) -> Iterable[OUT] | None:
        """Called for each window, with its records or the one value that they were reduced to."""


class KeyedStateBootstrapFunction(Function, ABC, Generic[K, IN]):
    """Makes keyed state: `process_element` is called for each record, with the state of its key.

    Example::

        class Counts(KeyedStateBootstrapFunction):
            def open(self, runtime_context):
                self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

            def process_element(self, value, ctx):
                self.count.update(value.count)
                ctx.timer_service().register_event_time_timer(value.expires)

    Timers do not fire while state is made: they are stored.
    """

    class Context(ABC):
        """The current record."""

        @abstractmethod
        def timestamp(self) -> int:
            """Returns the record's timestamp, if timestamps are assigned."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Returns the timers of the current key."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Returns the key of the record."""

    @abstractmethod
    def process_element(self, value: IN, ctx: KeyedStateBootstrapFunction.Context) -> None:
        """Called for each record."""


class StateBootstrapFunction(Function, CheckpointedFunction, ABC, Generic[IN]):
    """Makes list state and union list state of an operator: `initialize_state` requests the states, `process_element`
    is called for each record, and `snapshot_state` at the end.

    Example::

        class Buffered(StateBootstrapFunction):
            def initialize_state(self, context):
                descriptor = ListStateDescriptor("buffered", Types.STRING())
                self.buffered = context.get_operator_state_store().get_list_state(descriptor)

            def process_element(self, value, ctx):
                self.buffered.add(value)

            def snapshot_state(self, context):
                pass
    """

    class Context(ABC):
        """The current record."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Returns the time by the clock, in milliseconds; it stands still while a subtask makes its state."""

        @abstractmethod
        def timestamp(self) -> int:
            """Returns the record's timestamp, if timestamps are assigned."""

    @abstractmethod
    def process_element(self, value: IN, ctx: StateBootstrapFunction.Context) -> None:
        """Called for each record."""


class BroadcastStateBootstrapFunction(Function, ABC, Generic[IN]):
    """Makes broadcast state: `process_element` is called for each record, in one process.

    Example::

        class Rules(BroadcastStateBootstrapFunction):
            def process_element(self, value, ctx):
                ctx.get_broadcast_state(RULES).put(value.name, value.limit)
    """

    class Context(ABC):
        """The current record, and the broadcast states."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Returns the time by the clock, in milliseconds; it stands still while a subtask makes its state."""

        @abstractmethod
        def timestamp(self) -> int:
            """Returns the record's timestamp, if timestamps are assigned."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor[Any, Any]) -> BroadcastState[Any, Any]:
            """Returns a broadcast state, which may be written."""

    @abstractmethod
    def process_element(self, value: IN, ctx: BroadcastStateBootstrapFunction.Context) -> None:
        """Called for each record."""
