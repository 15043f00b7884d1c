"""Counts the words that come over a socket, every two seconds: tumbling windows by the clock.

In one terminal, a server that sends what is typed:

    nc -lk 9999

In another one:

    flint demo windowed_word_count localhost 9999

Without a host and a port the program serves itself some lines of a poem, and ends when all words are counted. The poet
stays on the line until then: a window by the clock that is not over when the other side hangs up gives no result.
"""

import socket
import sys
import threading
import time

from flintstream.common import Time, Types
from flintstream.datastream import ProcessWindowFunction, StreamExecutionEnvironment
from flintstream.datastream.window import TumblingProcessingTimeWindows

POEM = """tiger tiger burning bright
in the forests of the night
what immortal hand or eye
could frame thy fearful symmetry
in what distant deeps or skies
burnt the fire of thine eyes
on what wings dare he aspire
what the hand dare seize the fire"""


COUNT = Types.TUPLE([Types.LONG(), Types.STRING(), Types.LONG()])


class WithTime(ProcessWindowFunction):
    """Gets one element, the pair that reduce() has made of all pairs of the window."""

    def process(self, word, context, elements):
        for _, count in elements:
            yield context.window().end, word, count


def windowed_word_count(lines):
    """A stream of (end of the window, word, count)."""
    return (
        lines.flat_map(str.split, Types.STRING())
        .map(lambda word: (word, 1), Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda pair: pair[0], Types.STRING())
        .window(TumblingProcessingTimeWindows.of(Time.seconds(2)))
        .reduce(lambda left, right: (left[0], left[1] + right[1]), WithTime(), COUNT)
    )


def main(host, port, words=None):
    """Counts until the other side hangs up, or so many words are counted."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    counts = windowed_word_count(env.socket_text_stream(host, port))
    counted = 0
    with counts.execute_and_collect("windowed word count") as results:
        for end, word, count in results:
            print(f"until {time.strftime('%H:%M:%S', time.localtime(end / 1000))}: {word} {count}", flush=True)
            counted += count
            if counted == words:
                break  # Leaving the results cancels the job.


def recite(server):
    """Sends the poem to the first who connects, a line every half second."""
    connection, _ = server.accept()
    with connection:
        for line in POEM.splitlines():
            connection.sendall(f"{line}\n".encode())
            time.sleep(0.5)
        connection.recv(1)  # Nobody sends anything: this waits until the program hangs up.


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(sys.argv[1], int(sys.argv[2]))
    elif len(sys.argv) == 1:
        with socket.create_server(("localhost", 0)) as poet:
            threading.Thread(target=recite, args=(poet,), daemon=True).start()
            main("localhost", poet.getsockname()[1], len(POEM.split()))
    else:
        sys.exit("usage: windowed_word_count.py [HOST PORT]")
