"""WindowOperator: the general window operator, for any assigner, trigger and evictor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flintstream.common.time import TimeDomain
from flintstream.runtime.batch import CHUNK, MAX_WATERMARK, MIN_WATERMARK, NO_TIMESTAMP, Batch
from flintstream.runtime.time.timers import Namespaced, TimerQueue, TimerService
from flintstream.runtime.windows.base import ALIGNED_TABLE, EVICTED_TABLE, GENERAL_TABLE, FiredWindow, WindowBase
from flintstream.runtime.windows.contents import MISSING
from flintstream.runtime.windows.merging import MergingWindows
from flintstream.runtime.windows.namespaces import NamespacedStateBackend
from flintstream.runtime.windows.spec import WindowSpec
from flintstream.runtime.windows.stored import StoredWindows


class AssignerContext:
    """The context of an assigner."""

    def __init__(self, operator: WindowOperator) -> None:
        self.get_current_processing_time = operator.context.services.clock
        self._runtime_context = operator.context.runtime_context

    def get_runtime_context(self) -> Any:
        """Returns the runtime context of the operator."""
        return self._runtime_context


class TriggerContext:
    """Time, timers and state of the current key and window, for a trigger."""

    def __init__(self, operator: WindowOperator) -> None:
        self._operator = operator
        self._timers = operator.timers
        self._state = operator._state
        self._windowed = operator.trigger_state
        self.get_current_processing_time = operator.context.services.clock
        self.window: Any = None
        self.merged: list[Any] = []
        """During a merge: the windows merged into `window`."""

    def get_metric_group(self) -> Any:
        """Returns the group in which the trigger registers metrics."""
        return self._operator.context.runtime_context.get_metrics_group()

    def get_current_watermark(self) -> int:
        """Returns the current watermark of the operator."""
        return self._timers.watermark

    def register_processing_time_timer(self, time: int) -> None:
        """Registers a timer that calls `on_processing_time`."""
        if not self._timers.quiesced:
            self._timers.processing.add(time, Namespaced(self._state.current_key, self.window))

    def register_event_time_timer(self, time: int) -> None:
        """Registers a timer that calls `on_event_time` when the watermark reaches that time."""
        if not self._timers.quiesced:
            self._timers.event.add(time, Namespaced(self._state.current_key, self.window))

    def delete_processing_time_timer(self, time: int) -> None:
        """Deletes a timer."""
        self._timers.processing.remove(time, Namespaced(self._state.current_key, self.window))

    def delete_event_time_timer(self, time: int) -> None:
        """Deletes a timer."""
        self._timers.event.remove(time, Namespaced(self._state.current_key, self.window))

    def get_partitioned_state(self, state_descriptor: Any) -> Any:
        """Returns state scoped to the current key and window."""
        self._windowed.current_key = self.window
        return self._windowed.state_of(state_descriptor)

    def merge_partitioned_state(self, state_descriptor: Any) -> None:
        """Merges the state of the merged windows into that of the new window."""
        self._windowed.merge(state_descriptor, self.merged, self.window)


class EvictorContext:
    """The context of an evictor."""

    def __init__(self, operator: WindowOperator) -> None:
        self._timers = operator.timers
        self.get_current_processing_time = operator.context.services.clock
        self.get_metric_group = operator.context.runtime_context.get_metrics_group

    def get_current_watermark(self) -> int:
        """Returns the current watermark of the operator."""
        return self._timers.watermark


class WindowOperator(WindowBase):
    """Maintains the windows of each key: assigns records, consults the trigger, calls the function, cleans up.

    With `make_window(start, end)` it can restore a checkpoint of aligned windows.
    """

    def __init__(self, spec: WindowSpec, make_window: Callable[[int, int], Any] | None = None) -> None:
        super().__init__(spec)
        self._make_window = make_window

    def open(self) -> None:
        state = self.context.keyed_state
        assert state is not None
        self.timers = TimerService(self.context.name, self.context.services.clock, state)
        self.timers.restore(self.context.restored_timers)
        self.trigger_state = NamespacedStateBackend(state, "_trigger:")
        self._time = self.timers
        super().open()
        self._merging: Any = state.engine_table("_merging") if hasattr(self._spec.assigner, "merge_windows") else None
        self._assigner_context = AssignerContext(self)
        self._trigger_context = TriggerContext(self)
        self._evictor_context = EvictorContext(self)
        aligned = self._aligned_windows()
        self._stored: Any = self.own_table(GENERAL_TABLE if self._spec.evictor is None else EVICTED_TABLE)
        """Contents by key and window."""
        for key, stored in aligned.items():
            self.guarded(self._restore_windows, key, stored)

    def _aligned_windows(self) -> dict[Any, StoredWindows]:
        """Returns the stored aligned windows, if this operator can restore them."""
        if self._make_window is None or self._spec.evictor is not None or ALIGNED_TABLE not in self._state.restored:
            return {}
        table = self._state.engine_table(ALIGNED_TABLE)
        found = dict(table)
        table.clear()
        return found

    def _restore_windows(self, key: Any, stored: StoredWindows) -> None:
        """Restores the windows of a key, with the timers that the default trigger would have set."""
        assert self._make_window is not None
        self._state.current_key = key
        entries = {}
        for start, contents in stored.each(self._spec.contents):
            window = self._make_window(start, start + stored.layout[0])
            if self._cleanup_time(window) > stored.now:
                entries[window] = contents
                self._set_cleanup_timer(window)
                if window.max_timestamp() > stored.now:
                    self._set_timer(window, window.max_timestamp())
        self._stored[key] = entries
        self._state.current_key = self._state.no_key

    def open_windows(self) -> Iterator[tuple[Any, Any, Any]]:
        """Yields key, window and contents of every window that has contents; for readers of stored state."""
        for key, entries in self._stored.items():
            mapping = {} if self._merging is None else self._merging.get(key) or {}
            windows = {state_window: window for window, state_window in mapping.items()}
            for state_window, contents in entries.items():
                yield key, windows.get(state_window, state_window), contents

    # --- records ---

    def process(self, batch: Batch) -> None:
        assert batch.keys is not None
        self._fire_processing_time()
        self._state.touch(batch.keys)
        timestamps = batch.timestamps or [NO_TIMESTAMP] * len(batch.values)
        late: list[int] = []
        record: Any = None
        try:
            for index, (key, record, timestamp) in enumerate(zip(batch.keys, batch.values, timestamps)):
                self._state.current_key = key
                if not self._process(record, timestamp):
                    late.append(index)
        except Exception as error:
            raise self.fault(error, record) from error
        self._emitter.flush()
        self.emit_late(batch, late)

    def _process(self, record: Any, timestamp: int) -> bool:
        """Adds a record to its windows; returns False if it is late for all of them."""
        windows = self._spec.assigner.assign_windows(record, timestamp, self._assigner_context)
        taken = False
        for window, value in zip(windows, self._spec.contents.for_windows(record, len(windows))):
            if self._merging is None:
                if self._is_late(window):
                    continue
                self._add(window, window, value, timestamp)
            else:
                merging = self._merging_windows()
                window = merging.add(window, self._merge)
                if self._is_late(window):
                    merging.retire(window)
                    self._keep_merging(merging)
                    continue
                self._keep_merging(merging)
                self._add(window, merging.state_window(window), value, timestamp)
            taken = True
        return taken or not (self._event_time and timestamp + self._spec.allowed_lateness <= self.timers.watermark)

    def _add(self, window: Any, state_window: Any, record: Any, timestamp: int) -> None:
        spec, key = self._spec, self._state.current_key
        entries = self._stored.get(key)
        if entries is None:
            entries = self._stored[key] = {}
        element = record if spec.evictor is None else (record, timestamp)
        entries[state_window] = spec.contents.add(entries.get(state_window, MISSING), element)
        self._trigger_context.window = window
        decision = spec.trigger.on_element(record, timestamp, window, self._trigger_context)
        self._apply(decision, window, state_window, timestamp)
        self._set_cleanup_timer(window)

    # --- time ---

    def process_watermark(self, timestamp: int) -> None:
        self.timers.watermark = timestamp
        self._fire(self.timers.event, timestamp, TimeDomain.EVENT_TIME)
        if timestamp == MAX_WATERMARK:
            self._fire_processing_time()
        super().process_watermark(timestamp)

    def tick(self) -> None:
        self._fire_processing_time()

    def end_key(self) -> None:
        self.timers.watermark = MAX_WATERMARK
        # As in Flink, timers that a trigger registers now are ignored: some would register themselves for ever.
        self.timers.quiesced = True
        self._fire(self.timers.event, MAX_WATERMARK, TimeDomain.EVENT_TIME)
        self._fire(self.timers.processing, MAX_WATERMARK, TimeDomain.PROCESSING_TIME)
        self.timers.quiesced = False
        self.timers.watermark = MIN_WATERMARK

    def next_due(self) -> float | None:
        earliest = self.timers.processing.earliest
        return None if earliest is None else (earliest + 1) / 1000

    def timers_to_store(self) -> TimerService:
        return self.timers

    def _fire_processing_time(self) -> None:
        if self.timers.processing.earliest is not None:
            # A timer fires after the clock has passed its millisecond, when no record can have that time any more.
            now = self.timers.current_processing_time() - 1
            self._fire(self.timers.processing, now, TimeDomain.PROCESSING_TIME)

    def _fire(self, queue: TimerQueue, until: int, domain: TimeDomain) -> None:
        earliest = queue.earliest
        if earliest is None or earliest > until:
            return
        keys: list[Any] = []
        place: Any = None
        try:
            for timestamp, place in queue.due(until):
                self._state.current_key = place.key
                keys.append(place.key)
                self._on_timer(timestamp, place.namespace, domain)
                if len(keys) >= CHUNK:
                    self._state.touch(keys)
                    keys = []
        except Exception as error:
            raise self.fault(error, None if place is None else FiredWindow(place.namespace, place.key)) from error
        self._state.touch(keys)
        self._emitter.flush()

    def _on_timer(self, timestamp: int, window: Any, domain: TimeDomain) -> None:
        spec, event = self._spec, domain is TimeDomain.EVENT_TIME
        state_window = window
        if self._merging is not None:
            state_window = self._merging_windows().state_window(window)
            if state_window is None:
                return  # A timer of a window that has been merged into another one.
        self._trigger_context.window = window
        ask = spec.trigger.on_event_time if event else spec.trigger.on_processing_time
        self._apply(ask(timestamp, window, self._trigger_context), window, state_window, timestamp)
        if event == self._event_time and timestamp == self._cleanup_time(window):
            self._clean(window, state_window)

    # --- windows ---

    def _apply(self, decision: Any, window: Any, state_window: Any, timestamp: int) -> None:
        """Carries out a trigger's decision; `timestamp` is that of the record or timer it decided on."""
        if decision.is_fire():
            entries = self._stored.get(self._state.current_key)
            contents = MISSING if entries is None else entries.get(state_window, MISSING)
            if contents is not MISSING:
                self._emit(window, state_window, contents, timestamp)
        if decision.is_purge():
            self._drop_contents(state_window)

    def _emit(self, window: Any, state_window: Any, contents: Any, timestamp: int) -> None:
        spec, key = self._spec, self._state.current_key
        if spec.evictor is None:
            if elements := spec.contents.elements(contents):
                self.call(window, key, elements, timestamp)
            return
        kept = self._evicted("evict_before", contents, window)
        self.call(window, key, [value for value, _ in kept], timestamp)
        kept = self._evicted("evict_after", kept, window)
        if kept:
            self._stored[key][state_window] = kept
        else:
            self._drop_contents(state_window)

    def _evicted(self, method: str, elements: list[Any], window: Any) -> list[Any]:
        """Returns the records of a window that an evictor keeps."""
        evictor = self._spec.evictor
        kept = getattr(evictor, method)(list(elements), len(elements), window, self._evictor_context)
        if kept is None:
            raise TypeError(
                f"{method}() of {type(evictor).__name__} returned None: it must return the records that stay in the "
                "window"
            )
        return list(kept)

    def _drop_contents(self, state_window: Any) -> None:
        key = self._state.current_key
        entries = self._stored.get(key)
        if entries is not None:
            entries.pop(state_window, None)
            if not entries:
                del self._stored[key]

    def _is_late(self, window: Any) -> bool:
        return self._event_time and self._cleanup_time(window) <= self.timers.watermark

    def _cleanup_time(self, window: Any) -> int:
        lateness = self._spec.allowed_lateness if self._event_time else 0
        return min(window.max_timestamp() + lateness, MAX_WATERMARK)  # type: ignore[no-any-return]

    def _set_cleanup_timer(self, window: Any) -> None:
        time = self._cleanup_time(window)
        if time != MAX_WATERMARK:
            self._set_timer(window, time)

    def _set_timer(self, window: Any, time: int) -> None:
        context = self._trigger_context
        context.window = window
        (context.register_event_time_timer if self._event_time else context.register_processing_time_timer)(time)

    def _delete_cleanup_timer(self, window: Any) -> None:
        time = self._cleanup_time(window)
        context = self._trigger_context
        context.window = window
        (context.delete_event_time_timer if self._event_time else context.delete_processing_time_timer)(time)

    def _clean(self, window: Any, state_window: Any) -> None:
        self._drop_contents(state_window)
        self._trigger_context.window = window
        self._spec.trigger.clear(window, self._trigger_context)
        if self._spec.function.clears:
            self.call_clear(window, self._state.current_key)
        if self._merging is not None:
            merging = self._merging_windows()
            merging.retire(window)
            self._keep_merging(merging)

    # --- merging ---

    def _merging_windows(self) -> MergingWindows:
        return MergingWindows(self._spec.assigner, self._merging.get(self._state.current_key) or {})

    def _keep_merging(self, merging: MergingWindows) -> None:
        if merging.mapping:
            self._merging[self._state.current_key] = merging.mapping
        else:
            self._merging.pop(self._state.current_key, None)

    def _merge(self, target: Any, windows: list[Any], state_window: Any, others: list[Any]) -> None:
        """Merges windows of the current key."""
        self._check_merged(target)
        context, trigger = self._trigger_context, self._spec.trigger
        context.window, context.merged = target, windows
        trigger.on_merge(target, context)
        for window in windows:
            if window != target:
                context.window = window
                trigger.clear(window, context)
                self._delete_cleanup_timer(window)
        entries = self._stored.get(self._state.current_key, {})
        for other in others:
            contents = entries.pop(other, MISSING)
            if contents is not MISSING:
                before = entries.get(state_window, MISSING)
                entries[state_window] = contents if before is MISSING else self._spec.contents.merge(before, contents)

    def _check_merged(self, target: Any) -> None:
        """Raises if a window is merged into one that has ended, whose results have been emitted.

        Not in processing time, where the clock advances between the assignment of a window and this check.
        """
        now = self.timers.watermark
        if self._is_late(target):
            raise RuntimeError(
                f"the windows of {self._spec.assigner!r} merge into {target!r}, which ended before the watermark {now}"
            )
