"""Ignores compiled modules where FLINT_PURE_PYTHON=1 asks for it: to debug, and to test what runs without a compiler."""

from __future__ import annotations

import importlib.machinery
import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

VARIABLE = "FLINT_PURE_PYTHON"


class _SourceFinder(MetaPathFinder):
    """Finds modules of the package as source files only."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if path is None or not fullname.startswith("flintstream."):
            return None
        if not all(map(os.path.isdir, path)):
            return None  # In a zip, from which nothing compiled is loaded anyway.
        loader = (importlib.machinery.SourceFileLoader, importlib.machinery.SOURCE_SUFFIXES)
        for directory in path:
            spec = importlib.machinery.FileFinder(directory, loader).find_spec(fullname, target)
            if spec is not None and spec.loader is not None:
                return spec
        raise ModuleNotFoundError(f"No module named {fullname!r} as source", name=fullname)


def install_if_wanted() -> None:
    """Installs the finder, once."""
    if os.environ.get(VARIABLE) == "1" and not any(isinstance(finder, _SourceFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _SourceFinder())
