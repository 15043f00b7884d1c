"""``python -m flintstream``: the ``flint`` command, run by this Python."""

from flintstream.cli.main import main

main()
