"""Makes ``import pyflink.X`` import ``flintstream.X``, so that a PyFlink program runs unchanged."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

__all__ = ["install_pyflink_alias", "pyflink_alias", "pyflink_alias_installed"]

_ALIAS, _REAL = "pyflink", "flintstream"
_INSTEAD = {
    "pyflink.datastream.connectors.": ". Use Spark's connector: env.from_spark to read, SparkSink to write",
    "pyflink.table.": ". For SQL use Spark SQL, before (env.from_spark) or after (SparkSink)",
}
"""Alternatives for PyFlink modules without a counterpart."""


class _AliasLoader(importlib.abc.Loader):
    """Loads the real module under the alias's name: the same object, so that classes stay identical."""

    def __init__(self, real_name: str) -> None:
        self._real_name = real_name
        self._real_spec: importlib.machinery.ModuleSpec | None = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self._real_name)
        self._real_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just overwritten the spec of the real module with the alias's.
        module.__spec__ = self._real_spec


class _AliasFinder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _ALIAS and not fullname.startswith(f"{_ALIAS}."):
            return None
        real_name = _REAL + fullname[len(_ALIAS) :]
        try:
            known = importlib.util.find_spec(real_name)
        except ModuleNotFoundError:
            known = None
        if known is None:
            instead = next((hint for part, hint in _INSTEAD.items() if f"{fullname}.".startswith(part)), "")
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: there is no {real_name!r}{instead}", name=fullname
            )
        return importlib.machinery.ModuleSpec(
            fullname, _AliasLoader(real_name), is_package=known.submodule_search_locations is not None
        )


def pyflink_alias_installed() -> bool:
    """Returns whether ``import pyflink`` is redirected to flintstream in this process."""
    return any(isinstance(finder, _AliasFinder) for finder in sys.meta_path)


def install_pyflink_alias() -> None:
    """Redirects every import of ``pyflink`` in this process to flintstream, as in the driver's program."""
    if not pyflink_alias_installed():
        _take_modules()
        sys.meta_path.insert(0, _AliasFinder())


@contextmanager
def pyflink_alias(enabled: bool = True) -> Iterator[None]:
    """Redirects every import of ``pyflink`` to flintstream while the context is open, even if PyFlink is installed."""
    if not enabled or pyflink_alias_installed():
        yield
        return
    hidden = _take_modules()
    finder = _AliasFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _take_modules()
        sys.modules.update(hidden)


def _take_modules() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name == _ALIAS or name.startswith(f"{_ALIAS}.")]
    return {name: sys.modules.pop(name) for name in names}
