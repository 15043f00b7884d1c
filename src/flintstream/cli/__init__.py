"""The ``flint`` command."""
