"""Compiles the record path, where a C compiler is there: each module beside which there is a `.pxd`, and each `.pyx`.

The same modules run as Python where there is none, only slower. `FLINT_PURE_PYTHON=1` at run time ignores what is compiled.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

SOURCES = Path("src")


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
        # Optional: without a compiler the installation goes on.
        Extension(
            ".".join(path.relative_to(SOURCES).with_suffix("").parts),
            [str(path)],
            optional=True,
            extra_compile_args=["-O2", "-g0", "-fno-strict-aliasing"],
        )
        for path in sorted([*augmented, *SOURCES.rglob("*.pyx")])
    ]
    directives = {"language_level": 3, "annotation_typing": False, "binding": True, "nonecheck": True}
    return list(
        cythonize(wanted, build_dir="build", compiler_directives=directives, nthreads=os.cpu_count() or 1, quiet=True)
    )


setup(ext_modules=extensions(), options={"build_ext": {"parallel": os.cpu_count() or 1}})
