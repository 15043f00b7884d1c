# compare: exact
# Dataclasses of the script itself as elements.
from dataclasses import dataclass, replace
from typing import Optional

from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment


@dataclass
class Reading:
    sensor: str
    celsius: float
    note: Optional[str] = None


def hotter(a, b):
    return a if a.celsius >= b.celsius else b


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
readings = env.from_collection(
    [Reading("s1", 20.5), Reading("s2", 18.0, "cellar"), Reading("s1", 22.25), Reading("s2", 17.5), Reading("s1", 21.0)]
)

readings.print()
env.execute()

hottest = readings.key_by(lambda r: r.sensor).reduce(hotter)
for reading in hottest.execute_and_collect():
    print(reading)

fahrenheit = readings.map(lambda r: replace(r, celsius=r.celsius * 9 / 5 + 32)).map(
    lambda r: "%s=%.1f" % (r.sensor, r.celsius), Types.STRING()
)
fahrenheit.print()
env.execute()
