"""A source of one's own that is read in parallel and can be read again: the log of a made-up web server.

The source says which splits there are, here the days, and how one is read from any position. Splits are spread over
the subtasks, and the position of each is what a checkpoint has to hold.
"""

from flintstream.common import Types, WatermarkStrategy
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.connectors.source import PythonSource

DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday"]


class ServerLog(PythonSource):
    type_info = Types.TUPLE([Types.STRING(), Types.STRING(), Types.INT()])

    def splits(self, parallelism):
        return DAYS

    def read(self, split, position):
        """Yields the position behind each record, then the record."""
        for line in range(position or 0, 1000):
            status = 500 if line % 97 == 0 else 200
            yield line + 1, (split, f"GET /{line}", status)


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    log = env.from_source(ServerLog(), WatermarkStrategy.no_watermarks(), "server log")
    failures = (
        log.filter(lambda entry: entry[2] >= 500)
        .map(lambda entry: (entry[0], 1), Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0], Types.STRING())
        .sum(1)
    )
    # The records of a stream, in the program itself. Each day's last count is the one that stays.
    with failures.execute_and_collect("failures by day") as results:
        counts = dict(results)
    for day in DAYS:
        print(f"{day}: {counts[day]} failures")


if __name__ == "__main__":
    main()
