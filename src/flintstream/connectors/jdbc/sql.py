"""Translates the SQL of JDBC, with `?` for a value, to that of a Python driver."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PLAIN_STRING = r"'(?:[^']|'')*'"
_BACKSLASH_STRING = r"'(?:[^'\\]|\\.|'')*'"
_BACKSLASH_DOUBLE_STRING = r'"(?:[^"\\]|\\.|"")*"'
_IDENTIFIER = r'"(?:[^"]|"")*"'
_BACKQUOTED = r"`(?:[^`]|``)*`"
_BRACKETED = r"\[[^\]]*\]"
_DASHES = r"--[^\n]*"
_DASHES_AND_SPACE = r"--(?=\s|$)[^\n]*"
_HASH = r"\#[^\n]*"
_COMMENT = r"/\*.*?\*/"
_DOLLAR_STRING = r"(?<![\w$])\$(?P<tag>[^\W\d]\w*|)\$.*?\$(?P=tag)\$"
_ESCAPED_STRING = rf"(?<![\w$])[eE]{_BACKSLASH_STRING}"
_LEFT_OPEN = r"""['"]|/\*"""


@dataclass(frozen=True)
class Syntax:
    """A database's syntax of strings and comments, where `?` is not a placeholder, and its driver's placeholder."""

    quoted: tuple[str, ...]
    """Regular expressions of strings, quoted names and comments."""
    placeholder: str
    """The driver's placeholder."""
    nested_comments: bool = False
    """Whether comments may be nested, which no regular expression can match."""
    doubled_question_mark: bool = False
    """Whether `??` is an operator `?`."""

    def translate(self, sql: str) -> tuple[str, int]:
        """Returns the statement for the driver, and its number of placeholders."""
        pieces: list[str] = []
        count = position = 0
        pattern = re.compile("|".join((*self.quoted, r"(?P<mark>\?\??)", f"(?P<open>{_LEFT_OPEN})")), re.S)
        while (found := pattern.search(sql, position)) is not None:
            pieces.append(self._text(sql[position : found.start()]))
            mark, position = found["mark"], found.end()
            if found["open"]:
                position = self._end_of_comment(sql, found.start())
                pieces.append(self._text(sql[found.start() : position]))
            elif mark is None:
                pieces.append(self._text(found[0]))
            elif mark == "??" and self.doubled_question_mark:
                pieces.append("?")
            else:
                pieces += [self.placeholder] * len(mark)
                count += len(mark)
        pieces.append(self._text(sql[position:]))
        return "".join(pieces), count

    def _text(self, text: str) -> str:
        # A driver with %s placeholders interprets any other %, even in strings and comments.
        return text.replace("%", "%%") if "%" in self.placeholder else text

    def _end_of_comment(self, sql: str, start: int) -> int:
        """Returns the end of a comment, which may contain others; an unterminated one is an error."""
        if not (self.nested_comments and sql.startswith("/*", start)):
            raise _unclosed(sql, start)
        depth = 0
        for mark in re.compile(r"/\*|\*/").finditer(sql, start):
            depth += 1 if mark[0] == "/*" else -1
            if depth == 0:
                return mark.end()
        raise _unclosed(sql, start)


def _unclosed(sql: str, start: int) -> ValueError:
    opened = "/*" if sql.startswith("/*", start) else sql[start]
    return ValueError(f"the SQL statement {sql!r} has a {opened} at {start} that is not closed")


POSTGRESQL = Syntax(
    (_ESCAPED_STRING, _PLAIN_STRING, _IDENTIFIER, _DASHES, _DOLLAR_STRING),
    "%s",
    nested_comments=True,
    doubled_question_mark=True,
)
MYSQL = Syntax((_BACKSLASH_STRING, _BACKSLASH_DOUBLE_STRING, _BACKQUOTED, _DASHES_AND_SPACE, _HASH, _COMMENT), "%s")
SQLITE = Syntax((_PLAIN_STRING, _IDENTIFIER, _BACKQUOTED, _BRACKETED, _DASHES, _COMMENT), "?")
