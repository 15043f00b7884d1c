"""Counts the words that come over a socket, until the other side hangs up.

In one terminal, a server that sends what is typed:

    nc -lk 9999

In another one:

    flint run examples/socket_word_count.py localhost 9999

A socket cannot be read again: after a failure, what had come before is lost.
"""

import sys

from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment


def main(host, port):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    (
        env.socket_text_stream(host, port)
        .flat_map(str.split, Types.STRING())
        .map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0], Types.STRING())
        .sum(1)
        .print()
    )
    env.execute("socket word count")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: socket_word_count.py HOST PORT")
    main(sys.argv[1], int(sys.argv[2]))
