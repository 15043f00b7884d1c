"""NFACompiler: turns a pattern into an automaton, on the driver; refuses what cannot work, and names the stage.

Stages are compiled from the last one to the first: each gets the state that follows it as its sink. A stage that must
not match has no states of its own, but transitions to a stop state from the states around it.
"""

from __future__ import annotations

from typing import Any

from flintstream.cep.errors import MalformedPatternException
from flintstream.cep.pattern import GroupPattern, Pattern, WithinType
from flintstream.cep.quantifier import ConsumingStrategy, QuantifierProperty, Times
from flintstream.runtime.cep.automaton import Action, Automaton, State, StateKind
from flintstream.runtime.cep.conditions import Constant, IterativeCondition, both, negated

_END = "$endState$"
_Condition = IterativeCondition[Any]
_Not = tuple[_Condition, str]
"""A stage that must not match: its condition and name."""

STRICT, NEXT, ANY = ConsumingStrategy.STRICT, ConsumingStrategy.SKIP_TILL_NEXT, ConsumingStrategy.SKIP_TILL_ANY
NOT_NEXT, NOT_FOLLOW = ConsumingStrategy.NOT_NEXT, ConsumingStrategy.NOT_FOLLOW
LOOPING, TIMES = QuantifierProperty.LOOPING, QuantifierProperty.TIMES
OPTIONAL, GREEDY = QuantifierProperty.OPTIONAL, QuantifierProperty.GREEDY


def compile_pattern(pattern: Pattern[Any]) -> Automaton:
    """Returns the automaton of a pattern; raises a MalformedPatternException if there is none."""
    _check_names(pattern)
    _check_skip_target(pattern)
    compiler = NFACompiler(pattern)
    automaton = compiler.compile()
    _check_windows(pattern, automaton, compiler.windowed)
    _check_loops(automaton)
    return automaton


class NFACompiler:
    """Compiles one pattern. The current stage, its follower and its group change as the compiler goes backwards."""

    def __init__(self, pattern: Pattern[Any]) -> None:
        self._skip = pattern.get_after_match_skip_strategy()
        self._current: Pattern[Any] = pattern
        self._following: Pattern[Any] | None = None
        self._group: GroupPattern[Any] | None = None
        self._inside_loop: set[GroupPattern[Any]] = set()
        """Groups of which a repetition other than the first is being compiled."""
        self._before_greed: dict[State, State] = {}
        """Copies of states that a greedy loop was given as its sink, from before its condition was negated on them."""
        self._states: list[State] = []
        self._names: set[str] = set()
        self._numbers: dict[str, int] = {}
        """The next number for another state of a stage."""
        self._window: int | None = _window_of(pattern, WithinType.FIRST_AND_LAST)
        self._step_windows: dict[int, int] = {}
        self.windowed: list[tuple[Pattern[Any], int]] = []
        """The windows of steps, with their stages."""

    def compile(self) -> Automaton:
        """Returns the automaton."""
        end = self._named_state(_END, StateKind.FINAL)
        start = self._convert(self._stages_before(end))
        start.kind = StateKind.START
        return Automaton(self._states, start, self._skip, max(self._window or 0, 0), self._step_windows)

    # --- stages ---

    def _stages_before(self, sink: State) -> State:
        """Compiles the current stage and those before it, but not the first of the sequence."""
        while (previous := self._current.get_previous()) is not None:
            consuming = self._current.get_quantifier().get_consuming_strategy()
            if consuming is NOT_FOLLOW:
                sink = self._not_followed_by(sink)
            elif consuming is NOT_NEXT:
                sink = self._not_next(sink)
            else:
                sink = self._convert(sink)
            self._following, self._current = self._current, previous
            window = _window_of(previous, WithinType.FIRST_AND_LAST)
            if window is not None and (self._window is None or window < self._window):
                self._window = window
        return sink

    def _not_followed_by(self, sink: State) -> State:
        """As the last stage it waits for the end of the window; otherwise it is part of the stages around it."""
        step = _window_of(self._current, WithinType.PREVIOUS_AND_CURRENT)
        if sink.kind is not StateKind.FINAL or (step is None and not (self._window or 0) > 0):
            return sink
        waiting = self._state(StateKind.PENDING, takes=True)
        condition = self._take_condition(self._current)
        waiting.add(Action.PROCEED, self._stop_state(condition, self._current.get_name()), condition)
        waiting.add(Action.IGNORE, waiting, negated(condition))
        return waiting

    def _not_next(self, sink: State) -> State:
        state = self._state(StateKind.NORMAL, takes=True)
        condition = self._take_condition(self._current)
        stop = self._stop_state(condition, self._current.get_name())
        # As the last stage it must not be passed by a look ahead: the next event decides.
        onwards = Action.IGNORE if sink.kind is StateKind.FINAL else Action.PROCEED
        state.add(onwards, sink, negated(condition))
        state.add(Action.PROCEED, stop, condition)
        return state

    def _convert(self, sink: State) -> State:
        """Compiles the current stage with its quantifier; returns its first state."""
        quantifier, times = self._current.get_quantifier(), self._current.get_times()
        if quantifier.has_property(LOOPING):
            assert times is not None
            self._mark_repetition(True)
            loop = self._loop(self._without_nots(sink))
            self._mark_repetition(False)
            first = self._repeated(loop, sink, times)
        elif quantifier.has_property(TIMES):
            assert times is not None
            first = self._repeated(sink, sink, times)
        else:
            first = self._single(
                sink,
                sink,
                self._take_condition(self._current),
                self._ignore_condition(self._current),
                _is_optional(self._current),
            )
        self._add_stops(first)
        return first

    def _repeated(self, sink: State, behind: State, times: Times) -> State:
        """Compiles a number of repetitions; those that may be left out proceed to the state behind the stage."""
        until = self._current.get_until_condition()
        take = _before(until, self._take_condition(self._current))
        ignore = self._inner_ignore_condition(self._current)
        inner_ignore = None if ignore is None else _before(until, ignore)
        self._mark_repetition(True)
        if self._current.get_quantifier().has_property(GREEDY) and times.from_ != times.to:
            if until is not None:
                self._before_greed[sink] = self._copy(sink)
            _refuse_also(sink, take)
        first = sink
        for _ in range(times.from_, times.to):
            first = self._single(first, behind, take, inner_ignore, True)
            self._add_following_stop(first)
        for _ in range(times.from_ - 1):
            first = self._single(first, None, take, inner_ignore, False)
            self._add_following_stop(first)
        self._mark_repetition(False)
        return self._single(first, behind, take, self._ignore_condition(self._current), _is_optional(self._current))

    def _single(
        self, sink: State, behind: State | None, take: _Condition, ignore: _Condition | None, optional: bool
    ) -> State:
        """Compiles one event of the current stage, or one pass through the current group."""
        if isinstance(self._current, GroupPattern):
            return self._group_once(self._current, sink, behind, optional)
        state = self._state(StateKind.NORMAL, takes=True)
        # Once an event is taken, stages that must not match before it are over.
        taken = self._without_nots(sink)
        state.add(Action.TAKE, taken, take)
        if optional:
            assert behind is not None
            self._proceed_behind(state, behind)
        if ignore is not None:
            waiting = state
            if optional or self._is_head_of_optional_group(self._current):
                # Having ignored an event, the stage can no longer be left out.
                waiting = self._state(StateKind.NORMAL, takes=False)
                waiting.add(Action.TAKE, taken, take)
                waiting.add(Action.IGNORE, waiting, ignore)
                self._add_stops(waiting)
            state.add(Action.IGNORE, waiting, ignore)
        return state

    def _proceed_behind(self, state: State, behind: State) -> None:
        always, until = self._always(), self._current.get_until_condition()
        if until is not None and self._current.get_quantifier().has_property(GREEDY):
            # The event that ends the loop is not the loop's, whatever its condition says.
            original = self._before_greed.get(behind)
            if original is not None:
                state.add(Action.PROCEED, original, both(always, until))
            state.add(Action.PROCEED, behind, both(always, negated(until)))
        else:
            state.add(Action.PROCEED, behind, always)

    def _loop(self, sink: State) -> State:
        """Compiles the open end of a loop: any number of further events."""
        if isinstance(self._current, GroupPattern):
            return self._group_loop(self._current, sink)
        until = self._current.get_until_condition()
        ignore = self._inner_ignore_condition(self._current)
        take = _before(until, self._take_condition(self._current))
        always = self._always()
        state = self._state(StateKind.NORMAL, takes=True)
        if self._current.get_quantifier().has_property(GREEDY):
            if until is not None:
                original = self._before_greed[sink] = self._copy(sink)
                state.add(Action.PROCEED, original, both(always, until))
            state.add(Action.PROCEED, sink, always if until is None else both(always, negated(until)))
            _refuse_also(sink, self._take_condition(self._current))
        else:
            state.add(Action.PROCEED, sink, always)
        state.add(Action.TAKE, state, take)
        self._add_following_stop(state)
        if ignore is not None:
            condition = _before(until, ignore)
            waiting = self._state(StateKind.NORMAL, takes=False)
            waiting.add(Action.TAKE, state, take)
            waiting.add(Action.IGNORE, waiting, condition)
            state.add(Action.IGNORE, waiting, condition)
            self._add_following_stop(waiting)
        return state

    # --- groups ---

    def _group_once(self, group: GroupPattern[Any], sink: State, behind: State | None, optional: bool) -> State:
        always = self._always()
        first = self._inside(group, sink)
        if optional:
            assert behind is not None
            first.add(Action.PROCEED, behind, always)
        return first

    def _group_loop(self, group: GroupPattern[Any], sink: State) -> State:
        always = self._always()
        again = self._state(StateKind.NORMAL, takes=True)
        first = self._inside(group, again)
        first.add(Action.PROCEED, sink, always)
        again.add(Action.PROCEED, first, always)
        return first

    def _inside(self, group: GroupPattern[Any], sink: State) -> State:
        """Compiles the stages of a group; returns the first state."""
        outside = self._current, self._following, self._group
        self._group, self._current = group, group.get_raw_pattern()
        first = self._convert(self._stages_before(sink))
        self._current, self._following, self._group = outside
        return first

    def _mark_repetition(self, repetition: bool) -> None:
        if isinstance(self._current, GroupPattern):
            (self._inside_loop.add if repetition else self._inside_loop.discard)(self._current)

    def _is_head_of_group(self, stage: Pattern[Any]) -> bool:
        return self._group is not None and stage.get_previous() is None

    def _is_head_of_optional_group(self, stage: Pattern[Any]) -> bool:
        if self._group is None or not self._is_head_of_group(stage):
            return False
        return self._group not in self._inside_loop and _is_optional(self._group)

    # --- conditions ---

    def _take_condition(self, stage: Pattern[Any]) -> _Condition:
        return _before(self._group_until(), stage.get_condition())

    def _always(self) -> _Condition:
        return _before(self._group_until(), Constant(True))

    def _ignore_condition(self, stage: Pattern[Any]) -> _Condition | None:
        """Returns which events may stand before the stage's first event; None for none."""
        consuming = stage.get_quantifier().get_consuming_strategy()
        if self._is_head_of_group(stage):
            assert self._group is not None
            quantifier, repetition = self._group.get_quantifier(), self._group in self._inside_loop
            consuming = quantifier.get_inner_consuming_strategy() if repetition else quantifier.get_consuming_strategy()
        return self._ignored(stage, consuming)

    def _inner_ignore_condition(self, stage: Pattern[Any]) -> _Condition | None:
        """Returns which events may stand between two events of the stage; None for none."""
        quantifier = stage.get_quantifier()
        if self._is_head_of_group(stage):
            assert self._group is not None
            quantifier = self._group.get_quantifier()
        return self._ignored(stage, quantifier.get_inner_consuming_strategy())

    def _ignored(self, stage: Pattern[Any], consuming: ConsumingStrategy) -> _Condition | None:
        if consuming is NEXT:
            return _before(self._group_until(), negated(stage.get_condition()))
        return _before(self._group_until(), Constant(True)) if consuming is ANY else None

    def _group_until(self) -> _Condition | None:
        return None if self._group is None else self._group.get_until_condition()

    # --- stages that must not match ---

    def _nots_before(self) -> list[_Not]:
        """Returns the not-stages before the current stage with only optional stages between."""
        found: list[_Not] = []
        stage = self._current.get_previous()
        while stage is not None:
            quantifier = stage.get_quantifier()
            if quantifier.get_consuming_strategy() is NOT_FOLLOW:
                found.append((self._take_condition(stage), stage.get_name()))
            elif not quantifier.has_property(OPTIONAL):
                break
            stage = stage.get_previous()
        return found

    def _add_stops(self, state: State) -> None:
        for condition, name in self._nots_before():
            state.add(Action.PROCEED, self._stop_state(condition, name), condition)

    def _add_following_stop(self, state: State) -> None:
        """Lets a loop be stopped by the not-stage behind it."""
        following = self._following
        if following is not None and following.get_quantifier().get_consuming_strategy() is NOT_FOLLOW:
            condition = self._take_condition(following)
            state.add(Action.PROCEED, self._stop_state(condition, following.get_name()), condition)

    def _stop_state(self, condition: _Condition, name: str) -> State:
        state = self._named_state(name, StateKind.STOP)
        state.add(Action.TAKE, state, condition)
        return state

    def _without_nots(self, sink: State) -> State:
        """Returns the sink of an optional stage without the transitions to stop states of the not-stages before it,
        which no longer apply once the stage has taken an event.
        """
        nots = {name for _, name in self._nots_before()}
        if not nots or not self._current.get_quantifier().has_property(OPTIONAL):
            return sink
        return self._copy(sink, nots)

    def _copy(self, state: State, nots: set[str] | None = None) -> State:
        """Returns a copy of a state; with `nots`, without transitions to their stop states, and so for all states that
        can be reached by proceeding.
        """
        copy = self._named_state(state.stage, state.kind)
        for each in state.transitions:
            target = copy if each.target is state else each.target
            if nots is not None and each.action is Action.PROCEED:
                if target.kind is StateKind.STOP:
                    if target.stage in nots:
                        continue
                else:
                    target = self._copy(target, nots)
            copy.add(each.action, target, each.condition)
        return copy

    # --- states ---

    def _state(self, kind: StateKind, takes: bool) -> State:
        state = self._named_state(self._current.get_name(), kind)
        times = self._current.get_times()
        window = None
        if takes:
            if times is None:
                window = _window_of(self._current, WithinType.PREVIOUS_AND_CURRENT)
            elif state.name != state.stage:
                window = times.window
        if window is not None:
            self._step_windows[state.index] = window
            self.windowed.append((self._current, window))
        return state

    def _named_state(self, stage: str, kind: StateKind) -> State:
        name, number = stage, self._numbers.get(stage, 0)
        while name in self._names:
            name, number = f"{stage}:{number}", number + 1
        self._names.add(name)
        self._numbers[stage] = number
        state = State(len(self._states), name, stage, kind)
        self._states.append(state)
        return state


def _is_optional(stage: Pattern[Any]) -> bool:
    return stage.get_quantifier().has_property(OPTIONAL)


def _before(until: _Condition | None, condition: _Condition) -> _Condition:
    """Returns the condition, unless the event ends the loop."""
    return condition if until is None else both(negated(until), condition)


def _refuse_also(state: State, taken: _Condition) -> None:
    """Lets a state behind a greedy loop see no event that the loop takes."""
    for each in state.transitions:
        each.condition = both(each.condition, negated(taken))


def _window_of(stage: Pattern[Any], kind: WithinType) -> int | None:
    window = stage.get_window_size(kind)
    return None if window is None else window.to_millis()


# --- what is refused ---


def _check_names(pattern: Pattern[Any]) -> None:
    seen: set[str] = set()

    def check(sequence: Pattern[Any]) -> None:
        for stage in sequence.stages():
            if isinstance(stage, GroupPattern):
                check(stage.get_raw_pattern())
            elif stage.get_name() in seen:
                raise MalformedPatternException(f"Duplicate pattern name: {stage.get_name()}. Names must be unique.")
            else:
                seen.add(stage.get_name())

    check(pattern)


def _check_skip_target(pattern: Pattern[Any]) -> None:
    strategy = pattern.get_after_match_skip_strategy()
    name = strategy.get_pattern_name()
    stages = pattern.stages()
    if name is not None and name not in [stage.get_name() for stage in stages]:
        raise MalformedPatternException(
            "The pattern name specified in AfterMatchSkipStrategy can not be found in the given Pattern: "
            f"{strategy!r}, but there are {', '.join(stage.describe() for stage in stages)}"
        )


def _check_windows(pattern: Pattern[Any], automaton: Automaton, windowed: list[tuple[Pattern[Any], int]]) -> None:
    limit = automaton.window
    for stage, window in windowed:
        if limit and window > limit:
            raise MalformedPatternException(
                f"{stage.describe()}: The window length between the previous and current event cannot be "
                "larger than the window length between the first and last event for a Pattern."
            )
    is_last = pattern.get_quantifier().get_consuming_strategy() is NOT_FOLLOW
    if is_last and not limit and not any(stage is pattern and window > 0 for stage, window in windowed):
        raise MalformedPatternException(
            f"{pattern.describe()}: NotFollowedBy is not supported without windowTime as a last part of a Pattern!"
        )


def _check_loops(automaton: Automaton) -> None:
    """Refuses a loop over a group that can be passed without an event: it would never end."""
    finished: set[int] = set()
    for state in automaton.states:
        _check_loop(state, finished, [])


def _check_loop(state: State, finished: set[int], path: list[State]) -> None:
    if state in path:
        stages = sorted({each.stage for each in path[path.index(state) :]} - {"GroupPattern"})
        raise MalformedPatternException(
            f"a group repeats, though all its stages are optional ({', '.join(map(repr, stages))}): it would repeat "
            "without an event for ever. Make one of its stages mandatory."
        )
    if state.index in finished:
        return
    for each in state.transitions:
        if each.action is Action.PROCEED:
            _check_loop(each.target, finished, [*path, state])
    finished.add(state.index)
