"""What a test says when this machine cannot run a server."""

from __future__ import annotations


class NotAvailable(Exception):
    """A program cannot be had on this machine; the message says why."""
