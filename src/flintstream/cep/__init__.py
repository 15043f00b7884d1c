"""Complex event processing: patterns of events in a stream, as in Flink's CEP library.

    pattern = (Pattern.begin("start").where(lambda event: event.name == "start")
               .followed_by("end").where(lambda event: event.name == "end")
               .within(Duration.of_seconds(10)))
    CEP.pattern(stream, pattern).select(lambda match: match["end"][0])

A pattern is compiled to an automaton on the driver (`compiler`); what runs in a slot is in `flintstream.runtime.cep`.
"""

from flintstream.cep.errors import MalformedPatternException
from flintstream.cep.functions import (
    EventComparator,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    RichPatternFlatSelectFunction,
    RichPatternSelectFunction,
    TimedOutPartialMatchHandler,
)
from flintstream.cep.pattern import GroupPattern, Pattern, WithinType
from flintstream.cep.pattern_stream import CEP, PatternStream
from flintstream.cep.quantifier import Quantifier
from flintstream.runtime.cep.conditions import IterativeCondition, RichIterativeCondition, SimpleCondition
from flintstream.runtime.cep.context import CepRuntimeContext
from flintstream.runtime.cep.skip import AfterMatchSkipStrategy

__all__ = [
    "CEP",
    "AfterMatchSkipStrategy",
    "CepRuntimeContext",
    "EventComparator",
    "GroupPattern",
    "IterativeCondition",
    "MalformedPatternException",
    "Pattern",
    "PatternFlatSelectFunction",
    "PatternFlatTimeoutFunction",
    "PatternProcessFunction",
    "PatternSelectFunction",
    "PatternStream",
    "PatternTimeoutFunction",
    "Quantifier",
    "RichIterativeCondition",
    "RichPatternFlatSelectFunction",
    "RichPatternSelectFunction",
    "SimpleCondition",
    "TimedOutPartialMatchHandler",
    "WithinType",
]
