"""Objects of the user's script on their way to another process, in which the script is not there."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

SCRIPT = """
    import functools, sys
    from collections import OrderedDict
    from flintstream.common.pickling import dumps_by_value

    @functools.cache
    def twice(n):
        return 2 * n

    @functools.lru_cache(maxsize=5)
    def fibonacci(n):
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    def local():
        @functools.lru_cache
        def inner(n):
            return n + 1
        return inner

    class Circle:
        def __init__(self, radius):
            self.radius = radius

        @functools.cached_property
        def area(self):
            return 3 * self.radius**2

        @functools.lru_cache
        def scaled(self, factor):
            return self.radius * factor

    def use():
        return twice(4), fibonacci(10), fibonacci.cache_parameters()["maxsize"], local()(1), Circle(2)

    twice(4)
    sys.stdout.buffer.write(dumps_by_value((use, Circle(5), functools.lru_cache(OrderedDict.fromkeys))))
"""

READER = """
    import pickle, sys
    use, circle, keys = pickle.load(sys.stdin.buffer)
    *numbers, other = use()
    print(numbers, circle.area, circle.area, vars(circle), other.area, circle.scaled(3), list(keys("ab")))
"""


def test_functions_and_properties_with_a_cache_work_where_the_script_is_not(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(SCRIPT))
    data = subprocess.run([sys.executable, str(script)], capture_output=True, check=True).stdout
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(READER)], input=data, capture_output=True, check=False)
    expected = "[8, 55, 5, 2] 75 75 {'radius': 5, 'area': 75} 12 15 ['a', 'b']"
    assert done.stdout.decode().strip() == expected, done.stderr.decode()
