"""Runs one benchmark in this process and writes its result: each gets a Spark that nothing else has used."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path

from bench.timing import MeasurementError


def main() -> None:
    """Called with the name, the file to write, and `quick` or `full`."""
    name, path, size = sys.argv[1:]
    try:
        result = importlib.import_module(f"bench.{name}").run(quick=size == "quick")
    except MeasurementError as error:
        sys.exit(str(error))
    Path(path).write_text(json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
