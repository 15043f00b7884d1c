"""Small interfaces shared by connectors and formats."""

from __future__ import annotations

from abc import abstractmethod

from flintstream.common.typeinfo import TypeInformation

__all__ = ["ResultTypeQueryable"]


class ResultTypeQueryable:
    """Something that knows the type of the records it produces."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation:
        """Returns the type of the records."""
        raise NotImplementedError
