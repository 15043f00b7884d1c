"""Sources and sinks, one module per connector."""

from __future__ import annotations

from flintstream.datastream.connectors.base import DeliveryGuarantee, Sink, Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]
