"""Whether a plain callable may keep what it emits, and change it later.

A function that refers to nothing that can change keeps nothing, so its results need no copy; most are like that. One that
fills a list of its closure or of its module and emits that list is not: its results are copied as those of a function object
are (see `detach`). What a callable refers to is known without calling it; where it is not, it may keep something.
"""

from __future__ import annotations

import logging
import operator
import re
import sys
from collections.abc import Iterator
from functools import partial
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

from flintstream.runtime.detach import is_plain

_KEEP_NOTHING = (
    type,
    ModuleType,
    MethodDescriptorType,
    WrapperDescriptorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    logging.Logger,
    re.Pattern,
    operator.attrgetter,
    operator.itemgetter,
    operator.methodcaller,
)


def may_keep(held: Any) -> bool:
    """Whether something that a function refers to, or the function itself, can change or leads to something that can."""
    seen: set[int] = set()
    waiting = [held]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, FunctionType):
            if (each.__module__ or "").partition(".")[0] not in sys.stdlib_module_names:
                waiting += _referred_to(each)
        elif isinstance(each, MethodType):
            waiting += (each.__self__, each.__func__)
        elif isinstance(each, BuiltinFunctionType):
            waiting.append(each.__self__)
        elif type(each) is partial:
            waiting += (each.func, *each.args, *each.keywords.values())
        elif type(each) is tuple:
            waiting += each
        elif not isinstance(each, _KEEP_NOTHING) and not is_plain(each):
            return True
    return False


def _referred_to(function: FunctionType) -> Iterator[Any]:
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    yield from vars(function).values()
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            pass  # A variable that has no value yet.
    for name in _names(function.__code__):
        if name in function.__globals__:
            yield function.__globals__[name]


def _names(code: CodeType) -> Iterator[str]:
    """The global names, and with them the names of attributes, of a function and of those inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
