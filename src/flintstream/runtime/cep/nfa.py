"""NFA: offers the events of a key to its partial matches.

For each event every partial match is moved along the transitions whose conditions the event fits. Where all conditions
in question are simple, the decision depends on the state alone, and is made once for all partial matches in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from flintstream.runtime.cep.automaton import Action, Automaton, State, StateKind
from flintstream.runtime.cep.computation import (
    NODE,
    ComputationState,
    Moment,
    NFAState,
    beginning,
    keep,
    pop,
    push,
    push_all,
)
from flintstream.runtime.cep.conditions import Constant, SimpleCondition, Test
from flintstream.runtime.cep.context import ConditionContext
from flintstream.runtime.cep.shared_buffer import NO_NODE, SharedBuffer

Match = dict[str, list[Any]]
"""A match: the events of each stage, in the order in which the stages were taken."""


class FilterFailure(RuntimeError):
    """A condition failed when an event was offered to a stage."""

    @staticmethod
    def at(stage: str) -> FilterFailure:
        """Returns the failure of a condition of a stage, or of one that the stage has to look at."""
        return FilterFailure(f"Failure happened in filter function. The event was offered to stage {stage!r}.")

    def __reduce__(self) -> Any:
        return FilterFailure, self.args


class Edge(NamedTuple):
    """A transition that an event fits."""

    takes: bool
    source: int
    """The state that takes the event."""
    target: int
    final: bool
    """Whether the match is complete with this event."""
    also_final: bool
    """Whether the match is complete with this event, and may go on as well."""


class Decision:
    """What happens to a partial match in a state when an event comes."""

    __slots__ = ("edges", "stays", "stops")

    def __init__(self, state: int, edges: list[Edge], stops: bool) -> None:
        self.edges = edges
        self.stops = stops
        """Whether the partial match is discarded; matches that are complete with this event are kept."""
        self.stays = not stops and len(edges) == 1 and edges[0][:3] == (False, state, state)


_Step = tuple[Action, int, Test | None]
"""A transition: its action, target and condition; None for every event."""


class NFA:
    """The automaton of a pattern, ready to run in a subtask.

    It keeps nothing itself: the state of a key is an NFAState and a SharedBuffer, given with each call.
    """

    def __init__(self, automaton: Automaton, clock: Callable[[], int]) -> None:
        states = automaton.states
        self.stages = [state.stage for state in states]
        self._steps: list[list[_Step]] = [_steps(state) for state in states]
        self._simple = [_is_simple(state) for state in states]
        kinds = [state.kind for state in states]
        self._stop = [kind is StateKind.STOP for kind in kinds]
        self._final = [kind is StateKind.FINAL for kind in kinds]
        self._pending = [kind is StateKind.PENDING for kind in kinds]
        self._end = self._final.index(True)
        self._start = automaton.start.index
        self.first_stage = automaton.start.stage
        self._skip = automaton.skip
        self._skips = automaton.skip.skips
        self.window = automaton.window
        self._step_windows = automaton.step_windows
        self.has_step_windows = bool(self._step_windows)
        self._windowed = bool(self.window or self._step_windows)
        self._context = ConditionContext(clock, self.stages)
        self._decisions: dict[int, Decision] = {}
        self.may_begin = _start_test(automaton.start)
        """Whether an event may begin a match, as a function of the event; None if every event may."""

    # --- an event ---

    def process(self, state: NFAState, buffer: SharedBuffer, value: Any, timestamp: int) -> tuple[list[Match], bool]:
        """Offers an event to all partial matches; returns the matches that it completes, and whether it has begun a
        partial match.
        """
        context, decisions, skips = self._context, self._decisions, self._skips
        decisions.clear()
        entries = buffer.entries
        before = state.partial
        after: list[ComputationState] = []
        complete: list[Any] = []  # With the events in place of the node, if they are emitted at once.
        event = nodes = 0
        begun, unchanged = False, True
        for each in (*before, None):
            if each is None:
                first, current, node, began = 0, self._start, NO_NODE, timestamp
            else:
                first, current, node, began, last = each
            decision = decisions.get(current)
            if decision is None:
                context.describe(buffer, node, timestamp)
                decision = self._decide(current, value)
                if self._simple[current]:
                    decisions[current] = decision
            if decision.stays:
                if each is None:
                    continue
                if unchanged:
                    after.append(each)  # The front of a queue is a queue.
                else:
                    push(after, each)
                continue
            unchanged = False
            references = -1
            path = None
            for takes, source, target, final, also_final in decision.edges:
                if not takes:
                    if each is None:
                        continue
                    if final and not skips:
                        push(complete, (first, target, buffer.events(node), began, last))
                    elif final:
                        references += 1
                        push(complete, (first, target, node, began, last))
                    elif not decision.stops:
                        references += 1
                        push(after, (first, target, node, began, last))
                    continue
                if not event:
                    event = state.next_id
                    state.next_id += 1
                start = first or event
                if (final or also_final) and not skips:
                    if path is None:
                        path = buffer.events(node)
                    push(complete, (start, self._end, [*path, (source, value)], began, timestamp))
                goes_on = not final and not decision.stops
                owners = goes_on + (skips and (final or also_final))
                if owners:
                    references += 1
                    nodes += 1
                    new = state.next_id
                    state.next_id += 1
                    entries[new] = (source, event, node, owners)
                    if goes_on:
                        begun = begun or each is None
                        push(after, (start, target, new, began, timestamp))
                    if skips and (final or also_final):
                        push(complete, (start, self._end, new, began, timestamp))
            if node and references:
                if references > 0:
                    buffer.refer(node, references)
                else:
                    buffer.release(node)
        if nodes:
            entries[event] = (value, timestamp, nodes)
        state.partial = after
        if not skips:
            matches = [self._match(pop(complete)[NODE]) for _ in range(len(complete))]
            # A former strategy may have held some back.
            return [*self._emit(state, buffer, []), *matches] if state.completed else matches, begun
        return self._emit(state, buffer, complete), begun

    def _decide(self, current: int, value: Any) -> Decision:
        """Finds the transitions that an event fits, in their order."""
        context = self._context
        edges: list[Edge] = []
        stops = False
        source = target = current
        try:
            states = [current]
            while states:
                source = states.pop()
                for action, target, test in self._steps[source]:
                    if test is not None and not test(value, context):
                        continue
                    if action is Action.PROCEED:
                        states.append(target)
                    elif self._stop[target]:
                        stops = True
                    else:
                        takes = action is Action.TAKE
                        final = self._final[target]
                        also_final = takes and not final and self._reaches_end(target, value)
                        edges.append(Edge(takes, source, target, final, also_final))
        except FilterFailure:
            raise
        except Exception as error:
            raise self._failure(source, target) from error
        return Decision(current, edges, stops)

    def _reaches_end(self, state: int, value: Any) -> bool:
        """Looks ahead: whether the match is complete if only optional stages are left."""
        states = [state]
        source = target = state
        try:
            while states:
                source = states.pop()
                for action, target, test in self._steps[source]:
                    if action is Action.PROCEED and (test is None or test(value, self._context)):
                        if self._final[target]:
                            return True
                        states.append(target)
        except Exception as error:
            raise self._failure(source, target) from error
        return False

    def _failure(self, source: int, target: int) -> FilterFailure:
        # The condition of a stage that must not match stands at the stages around it.
        return FilterFailure.at(self.stages[target if self._stop[target] else source])

    # --- time ---

    def advance_time(
        self, state: NFAState, buffer: SharedBuffer, timestamp: int
    ) -> tuple[list[Match], list[tuple[Match, int]]]:
        """Removes the partial matches whose window has ended; returns the matches that this completes, and the partial
        matches that have timed out, each with the end of its window.
        """
        if not self._windowed:
            return [], []
        window, steps = self.window, self._step_windows
        partial = state.partial
        if not partial or (not steps and timestamp - partial[0][3] < window):
            return [], []
        after: list[ComputationState] = []
        complete: list[ComputationState] = []
        timed_out: list[tuple[Match, int]] = []
        for each in partial:
            _, current, node, began, last = each
            step = steps.get(current, 0) if steps else 0
            step_over = step > 0 and timestamp - last >= step
            if not step_over and not (window and timestamp - began >= window):
                push(after, each)
            elif self._pending[current]:
                push(complete, each)
            else:
                ended = last + step if step_over else began + window
                timed_out.append((self._match(buffer.events(node)), ended))
                buffer.release(node)
        if len(after) == len(partial):
            return [], []
        state.partial = after
        return self._emit(state, buffer, complete), timed_out

    # --- after a match ---

    def _emit(self, state: NFAState, buffer: SharedBuffer, complete: list[ComputationState]) -> list[Match]:
        """Returns the complete matches of which no partial match that began earlier is alive, and discards what the
        strategy skips.
        """
        waiting, partial = state.completed, state.partial
        push_all(waiting, complete)
        matches: list[Match] = []
        while waiting and (not self._skips or not partial or beginning(waiting[0]) <= beginning(partial[0])):
            node = pop(waiting)[NODE]
            matches.append(self._match(buffer.events(node)))
            if self._skips:
                path = [(self.stages[source], moment) for source, moment in buffer.path(node)]
                kept = self._skip.first_kept(path)
                if kept is not None:
                    self._prune(partial, buffer, kept)
                    self._prune(waiting, buffer, kept)
            buffer.release(node)
        return matches

    def _prune(self, queue: list[ComputationState], buffer: SharedBuffer, first_kept: Moment) -> None:
        if queue and beginning(queue[0]) < first_kept:
            for each in queue:
                if beginning(each) < first_kept:
                    buffer.release(each[NODE])
            keep(queue, lambda each: beginning(each) >= first_kept)

    def _match(self, path: Iterable[tuple[int, Any]]) -> Match:
        stages = self.stages
        match: Match = {}
        for state, event in path:
            stage = stages[state]
            if stage in match:
                match[stage].append(event)
            else:
                match[stage] = [event]
        return match


def _steps(state: State) -> list[_Step]:
    steps: list[_Step] = []
    for each in state.transitions:
        if isinstance(each.condition, Constant):
            if each.condition.value:
                steps.append((each.action, each.target.index, None))
        else:
            steps.append((each.action, each.target.index, each.condition.test()))
    return steps


def _proceeding_from(state: State) -> list[State]:
    """Returns a state and all states that can be reached from it by proceeding."""
    found = [state]
    for each in found:
        targets = (transition.target for transition in each.transitions if transition.action is Action.PROCEED)
        found.extend(target for target in targets if target not in found)
    return found


def _is_simple(state: State) -> bool:
    """Returns whether what an event does in a state depends on the event alone: on simple conditions of the state, of
    those to proceed to, and of those that are looked ahead at after a take.
    """
    transitions = [each for reached in _proceeding_from(state) for each in reached.transitions]
    ahead = [
        each
        for taken in transitions
        if taken.action is Action.TAKE
        for reached in _proceeding_from(taken.target)
        for each in reached.transitions
        if each.action is Action.PROCEED
    ]
    return all(each.condition.simple for each in (*transitions, *ahead))


def _start_test(start: State) -> Callable[[Any], Any] | None:
    """Returns a test that every event fits which may begin a match."""
    transitions = [each for reached in _proceeding_from(start) for each in reached.transitions]
    takes = [each.condition for each in transitions if each.action is Action.TAKE]
    if not all(condition.simple for condition in takes):
        return None
    if any(isinstance(condition, Constant) and condition.value for condition in takes):
        return None
    takes = [condition for condition in takes if not isinstance(condition, Constant)]
    if len(takes) == 1 and isinstance(takes[0], SimpleCondition):
        return takes[0].predicate()
    tests = [condition.test() for condition in takes]
    return lambda value: any([test(value, None) for test in tests])
