"""Sources and sinks: each connector in a module of its own."""

from __future__ import annotations

from flintstream.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]
