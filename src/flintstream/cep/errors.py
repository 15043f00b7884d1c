"""MalformedPatternException: a pattern that cannot be compiled."""


class MalformedPatternException(ValueError):
    """A pattern is malformed; raised when it is built, or when `process` or `select` compiles it."""
