"""Converts records to the actions of a bulk request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from flintstream.common.arguments import text
from flintstream.common.types import Row
from flintstream.connectors.json_values import encode_json

__all__ = ["Action", "ElasticsearchEmitter"]

_CONFLICT_RETRIES = 5
"""How often the server repeats an update that collides with another writer's."""


class Action(NamedTuple):
    """An action of a bulk request."""

    index_name: str
    document_id: str | None
    """The id of the document; None if the server generates one."""
    body: bytes
    """The lines of the action."""
    record: Any


@dataclass(frozen=True)
class ElasticsearchEmitter:
    """Converts each record, a dict or a Row with field names, to a document.

    With a key field, the document with that id is updated or inserted: writing it again changes nothing. Without one,
    each record becomes a new document, with an id by the server.

    Example::

        ElasticsearchEmitter.static_index("orders", "order_id")
    """

    _index: str
    _key_field: str | None
    _doc_type: str | None
    _dynamic: bool

    @staticmethod
    def static_index(index: str, key_field: str | None = None, doc_type: str | None = None) -> ElasticsearchEmitter:
        """Writes all records to one index.

        :param index: the name of the index.
        :param key_field: the field with the document's id.
        :param doc_type: the mapping type; for Elasticsearch 6, and 7, which has deprecated it.
        """
        return _emitter("static_index: index", index, key_field, doc_type, False)

    @staticmethod
    def dynamic_index(
        index_field: str, key_field: str | None = None, doc_type: str | None = None
    ) -> ElasticsearchEmitter:
        """Writes each record to the index that one of its fields names.

        :param index_field: the field with the name of the index.
        :param key_field: the field with the document's id.
        :param doc_type: the mapping type; for Elasticsearch 6, and 7, which has deprecated it.
        """
        return _emitter("dynamic_index: index_field", index_field, key_field, doc_type, True)

    @property
    def key_field(self) -> str | None:
        """The field with the document's id; None if the server generates ids."""
        return self._key_field

    def with_type(self, doc_type: str) -> ElasticsearchEmitter:
        """Returns the same emitter with a mapping type, unless it has one."""
        return self if self._doc_type else ElasticsearchEmitter(self._index, self._key_field, doc_type, self._dynamic)

    def action(self, record: Any) -> Action:
        """Returns the action that writes a record."""
        document = record if isinstance(record, Mapping) else _fields(record)
        index = _name(document, self._index, "index_field") if self._dynamic else self._index
        target: dict[str, Any] = {"_index": index}
        if self._doc_type:
            target["_type"] = self._doc_type
        if self._key_field is None:
            return Action(index, None, f'{{"index":{encode_json(target)}}}\n{encode_json(document)}\n'.encode(), record)
        key = target["_id"] = _name(document, self._key_field, "key_field")
        target["retry_on_conflict"] = _CONFLICT_RETRIES
        update = f'{{"update":{encode_json(target)}}}\n{{"doc":{encode_json(document)},"doc_as_upsert":true}}\n'
        return Action(index, key, update.encode(), record)


def _emitter(what: str, index: str, key_field: str | None, doc_type: str | None, dynamic: bool) -> ElasticsearchEmitter:
    method = what.partition(":")[0]
    for option, value, needed in ((what, index, True), (f"{method}: key_field", key_field, False),
                                  (f"{method}: doc_type", doc_type, False)):  # fmt: skip
        if needed or value is not None:
            text(f"ElasticsearchEmitter.{option}", value)
    return ElasticsearchEmitter(index, key_field, doc_type, dynamic)


def _fields(record: Any) -> dict[str, Any]:
    if not isinstance(record, Row):
        raise TypeError(f"a record must be a dict or a Row with field names, got a {type(record).__name__}")
    return record.as_dict(True)


def _name(document: Mapping[str, Any], field: str, option: str) -> str:
    """Returns the name of an index or the id of a document."""
    value = document.get(field)
    if value is None or value == "":
        there = "is empty" if field in document else f"is missing; the record has {', '.join(map(repr, document))}"
        raise ValueError(f"the {option} {field!r} {there}")
    return str(value)
