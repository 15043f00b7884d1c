"""The type variables of streams, functions and states, all with the default Any.

With a default, a class may stand without parameters also where a checker is strict: `DataStream` is `DataStream[Any]`,
and `class Double(MapFunction)`, as PyFlink's programs have it, is no error. `typing` has defaults only from Python 3.13 on;
checkers bring `typing_extensions` with them, so that it need not be installed.
"""

from __future__ import annotations

import typing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar
else:

    def TypeVar(name, *, default, **variance):  # noqa: N802 - as in typing
        """One without the default, which only checkers need."""
        return typing.TypeVar(name, **variance)


# Both taken and given, such as the value of a state; and what a method's arguments decide, such as the result of a map.
T = TypeVar("T", default=Any)
K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)
R = TypeVar("R", default=Any)
A = TypeVar("A", default=Any)
B = TypeVar("B", default=Any)
ACC = TypeVar("ACC", default=Any)
S = TypeVar("S", default=Any)
W = TypeVar("W", default=Any)

# Only given: a stream of bool can stand where one of int is asked for.
T_co = TypeVar("T_co", covariant=True, default=Any)
K_co = TypeVar("K_co", covariant=True, default=Any)
W_co = TypeVar("W_co", covariant=True, default=Any)
A_co = TypeVar("A_co", covariant=True, default=Any)
B_co = TypeVar("B_co", covariant=True, default=Any)
OUT = TypeVar("OUT", covariant=True, default=Any)

# Only taken: a function of object can stand where one of int is asked for.
IN = TypeVar("IN", contravariant=True, default=Any)
IN1 = TypeVar("IN1", contravariant=True, default=Any)
IN2 = TypeVar("IN2", contravariant=True, default=Any)
KEY = TypeVar("KEY", contravariant=True, default=Any)
W_contra = TypeVar("W_contra", contravariant=True, default=Any)
