"""Compiles the record path, where a C compiler is there: each module beside which there is a `.pxd`, and each `.pyx`.

The same modules run as Python where there is none, only slower. `FLINT_PURE_PYTHON=1` at run time ignores what is compiled.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCES = Path("src")


class BuildAllOrNone(build_ext):
    """Compiles all modules; if one cannot be compiled, none is, since they know the layout of each other's objects.

    The installation goes on in any case, whatever is missing: the compiler, the headers of Python, or memory.
    """

    def build_extensions(self) -> None:
        self.failures: list[str] = []
        super().build_extensions()
        if self.failures:
            self.warn(f"the record path is not compiled, and runs as Python: {self.failures[0]}")
            for extension in self.extensions:
                with suppress(FileNotFoundError):
                    os.remove(self.get_ext_fullpath(extension.name))

    def build_extension(self, ext: Any) -> None:
        try:
            super().build_extension(ext)
        except Exception as error:  # Of which class depends on the version of setuptools.
            self.failures.append(f"{ext.name}: {error}")


def extensions() -> list[Extension]:
    """Returns the modules to compile; none if Cython is missing or they are not wanted."""
    if os.environ.get("FLINT_PURE_PYTHON") == "1":
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    augmented = [path.with_suffix(".py") for path in SOURCES.rglob("*.pxd")]
    wanted = [
        Extension(
            ".".join(path.relative_to(SOURCES).with_suffix("").parts),
            [str(path)],
            extra_compile_args=["-O2", "-g0", "-fno-strict-aliasing"],
        )
        for path in sorted([*augmented, *SOURCES.rglob("*.pyx")])
    ]
    directives = {"language_level": 3, "annotation_typing": False, "binding": True, "nonecheck": True}
    made = cythonize(
        wanted, build_dir="build", compiler_directives=directives, nthreads=os.cpu_count() or 1, quiet=True
    )
    for extension in made:
        extension.optional = True  # What has not been built is not missed. Cython forgets what it was given.
    return list(made)


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildAllOrNone},
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
