"""Compares answers with the shapes of Flink's: `flink_rest.json` has each call of its REST API with the shape of its
answer, recorded from Flink 2.3 (or, if not "recorded", from its documentation).
"""

from __future__ import annotations

import json
from pathlib import Path

_TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "object": (dict, list)}


def recorded_calls():
    """Returns the calls by method and path."""
    return json.loads((Path(__file__).parent / "flink_rest.json").read_text())


def differences(shape, value, where="."):
    """Returns what a value lacks of a shape, or has of another type. A null may stand for any value."""
    if value is None or shape in ("any", None):
        return []
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{where} is no list"]
        return [each for i, part in enumerate(value) for each in differences(shape[0], part, f"{where}[{i}]")]
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return [f"{where} is no object"]
        if set(shape) == {"*"}:
            return [each for key, part in value.items() for each in differences(shape["*"], part, f"{where}{key}.")]
        missing = [f"{where}{name} is missing" for name in shape if name not in value]
        inner = [(name, part) for name, part in shape.items() if name in value]
        return missing + [each for name, part in inner for each in differences(part, value[name], f"{where}{name}.")]
    if shape in _TYPES:
        wrong = not isinstance(value, _TYPES[shape]) or (isinstance(value, bool) and shape != "boolean")
        return [f"{where} is {value!r}, not a {shape}"] if wrong and value != "NaN" else []
    return [] if str(value) in shape.split("|") else [f"{where} is {value!r}, none of {shape}"]


def wrong_answers(get, parameters):
    """Asks all that was recorded, at the root and under /v1; returns the number of calls, and what is wrong with which.

    `get` returns the status and the parsed body of a path.
    """
    wrong, asked = {}, 0
    for call, recorded in recorded_calls().items():
        method, path = call.split(" ", 1)
        if method != "GET" or not recorded["recorded"]:
            continue
        asked += 1
        for prefix in ("", "/v1"):
            status, body = get(prefix + path.format(**parameters))
            found = [f"status {status}: {body}"] if status != 200 else differences(recorded["response"], body)
            if found:
                wrong[prefix + path] = found
    return asked, wrong
