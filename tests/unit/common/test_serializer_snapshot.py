"""State that was written once, and the serialiser of today."""

import datetime
import json
import pickle
import struct
import subprocess
import sys
import threading
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintstream.common import Row, RowKind, TypeInformation, Types, TypeSerializer
from flintstream.common.serializer_snapshot import Compatibility, SchemaCompatibility, TypeSerializerSnapshot
from flintstream.common.typeinfo import ExternalTypeInfo, LocalTimeTypeInfo

AS_IS, MIGRATION, INCOMPATIBLE = Compatibility
BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
LOCAL = {kind.name: LocalTimeTypeInfo(kind) for kind in LocalTimeTypeInfo.TimeType}
SIMPLE = [
    *(getattr(Types, name)() for name in ("STRING", "BYTE", "BOOLEAN", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE")),
    *(getattr(Types, name)() for name in ("CHAR", "BIG_INT", "BIG_DEC", "INSTANT")),
    *(getattr(Types, name)() for name in ("SQL_DATE", "SQL_TIME", "SQL_TIMESTAMP", "PICKLED_BYTE_ARRAY")),
    *LOCAL.values(),
    BYTES,
]
NAMES = st.lists(st.text(min_size=1), unique=True, max_size=3)
TYPES = st.recursive(
    st.sampled_from(SIMPLE),
    lambda inner: st.one_of(
        st.builds(Types.LIST, inner),
        st.builds(Types.BASIC_ARRAY, inner),
        st.builds(Types.OBJECT_ARRAY, inner),
        st.builds(Types.MAP, inner, inner),
        st.builds(Types.TUPLE, st.lists(inner, max_size=3)),
        NAMES.flatmap(
            lambda names: st.builds(
                Types.ROW_NAMED, st.just(names), st.lists(inner, min_size=len(names), max_size=len(names))
            )
        ),
    ),
    max_leaves=8,
)


class Scaled(TypeSerializer):
    """A serialiser with an attribute."""

    def __init__(self, scale):
        self.scale = scale

    def serialize(self, element, stream):
        stream.write(struct.pack(">q", round(element * self.scale)))

    def deserialize(self, stream):
        return struct.unpack(">q", stream.read(8))[0] / self.scale


class Renamed(Scaled):
    """The same under another name."""


class Named(TypeSerializer):
    """One whose snapshot knows what follows it."""

    def serialize(self, element, stream):
        stream.write(element.encode())

    def deserialize(self, stream):
        return stream.read().decode()

    def snapshot_configuration(self):
        return NamedSnapshot()


class NamedSnapshot(TypeSerializerSnapshot):
    version = 2

    def write(self):
        return {"encoding": "utf-8"}

    @classmethod
    def read(cls, version, content):
        assert content["encoding"] == "utf-8"
        return cls()

    def restore_serializer(self):
        return Named()

    def resolve_schema_compatibility(self, new_serializer):
        if not isinstance(new_serializer, Named):
            convert = lambda values: [float(value) for value in values]  # noqa: E731
            return SchemaCompatibility.compatible_after_migration("texts became numbers", convert)
        return SchemaCompatibility.compatible_as_is()


class UserType(TypeInformation):
    """A type with a serialiser of one's own."""

    def __init__(self, serializer):
        self.serializer = serializer

    def create_serializer(self):
        return self.serializer


def stored(snapshot):
    """A snapshot as it comes back from a file."""
    return TypeSerializerSnapshot.from_data(json.loads(json.dumps(snapshot.to_data())))


def evolve(old, new, *values):
    """The answer, and the values after the way that old state takes."""
    before, now = old.create_serializer(), new.create_serializer()
    data, snapshot = before.serialize_all(list(values)), stored(before.snapshot_configuration())
    answer = snapshot.resolve_schema_compatibility(now)
    if answer.is_incompatible():
        return answer, None
    reader = now if answer.is_compatible_as_is() else snapshot.restore_serializer()
    migrated = answer.migrate(reader.deserialize_all(data))
    return answer, now.deserialize_all(now.serialize_all(migrated))


@given(TYPES)
def test_a_stored_type_is_the_type(type_info):
    snapshot = type_info.create_serializer().snapshot_configuration()
    again = stored(snapshot)
    assert again == snapshot
    assert again.version == 1
    assert again.restore_serializer() == type_info.create_serializer()
    assert again.resolve_schema_compatibility(type_info.create_serializer()).is_compatible_as_is()


@given(TYPES, TYPES)
def test_every_pair_of_types_has_an_answer(old, new):
    answer = old.create_serializer().snapshot_configuration().resolve_schema_compatibility(new.create_serializer())
    if old == new:
        assert answer.is_compatible_as_is()
    elif not answer.is_compatible_as_is():
        assert str(old) in answer.text and str(new) in answer.text
    pickle.dumps(answer)


def row(**fields):
    return Types.ROW_NAMED(list(fields), list(fields.values()))


INT, LONG, STRING = Types.INT(), Types.LONG(), Types.STRING()
PICKLED = Types.PICKLED_BYTE_ARRAY()


@pytest.mark.parametrize(
    ("old", "new", "kind", "before", "after"),
    [
        (INT, INT, AS_IS, 1, 1),
        (ExternalTypeInfo(INT), INT, AS_IS, 1, 1),
        (INT, LONG, MIGRATION, 1, 1),
        (Types.BYTE(), Types.SHORT(), MIGRATION, 1, 1),
        (LONG, Types.BIG_INT(), MIGRATION, 2**62, 2**62),
        (LONG, Types.BIG_DEC(), MIGRATION, 2**62, Decimal(2**62)),
        (INT, Types.DOUBLE(), MIGRATION, 7, 7.0),
        (Types.SHORT(), Types.FLOAT(), MIGRATION, 7, 7.0),
        (Types.FLOAT(), Types.DOUBLE(), MIGRATION, 0.5, 0.5),
        (Types.CHAR(), STRING, MIGRATION, "a", "a"),
        (Types.SQL_DATE(), LOCAL["LOCAL_DATE"], MIGRATION, datetime.date(2020, 1, 2), datetime.date(2020, 1, 2)),
        (LONG, INT, INCOMPATIBLE, 1, None),
        (LONG, Types.DOUBLE(), INCOMPATIBLE, 1, None),
        (INT, Types.FLOAT(), INCOMPATIBLE, 1, None),
        (INT, STRING, INCOMPATIBLE, 1, None),
        (Types.BOOLEAN(), INT, INCOMPATIBLE, True, None),
        (LOCAL["LOCAL_DATE"], LOCAL["LOCAL_TIME"], INCOMPATIBLE, datetime.date(2020, 1, 2), None),
        (Types.LIST(INT), Types.LIST(LONG), MIGRATION, [1, None], [1, None]),
        (Types.LIST(INT), Types.LIST(INT), AS_IS, [1], [1]),
        (Types.LIST(INT), Types.LIST(STRING), INCOMPATIBLE, [1], None),
        (Types.LIST(INT), Types.BASIC_ARRAY(INT), INCOMPATIBLE, [1], None),
        (Types.PRIMITIVE_ARRAY(INT), Types.PRIMITIVE_ARRAY(Types.DOUBLE()), MIGRATION, [1], [1.0]),
        (BYTES, Types.PRIMITIVE_ARRAY(INT), INCOMPATIBLE, b"a", None),
        (Types.MAP(INT, INT), Types.MAP(LONG, Types.DOUBLE()), MIGRATION, {1: 2, 3: None}, {1: 2.0, 3: None}),
        (Types.MAP(STRING, INT), Types.MAP(INT, INT), INCOMPATIBLE, {"a": 1}, None),
        (row(a=INT, b=STRING), row(a=INT, b=STRING), AS_IS, (1, "x"), Row(a=1, b="x")),
        (row(a=INT), row(a=INT, b=STRING), MIGRATION, (1,), Row(a=1, b=None)),
        (row(a=INT, b=STRING), row(b=STRING), MIGRATION, (1, "x"), Row(b="x")),
        (row(a=INT, b=STRING), row(b=STRING, a=LONG), MIGRATION, (1, None), Row(b=None, a=1)),
        (row(a=INT), row(b=INT), INCOMPATIBLE, (1,), None),
        (row(), row(b=INT), MIGRATION, (), Row(b=None)),
        (row(a=INT), row(a=STRING, b=INT), INCOMPATIBLE, (1,), None),
        (row(a=row(b=INT)), row(a=row(b=LONG, c=INT)), MIGRATION, ((1,),), Row(a=Row(b=1, c=None))),
        (Types.TUPLE([INT]), Types.TUPLE([LONG, STRING]), MIGRATION, (1,), (1, None)),
        (Types.TUPLE([INT, STRING]), Types.TUPLE([INT]), MIGRATION, (1, "a"), (1,)),
        (Types.TUPLE([INT, STRING]), Types.TUPLE([STRING]), INCOMPATIBLE, (1, "a"), None),
        (Types.TUPLE([INT]), Types.ROW([INT]), INCOMPATIBLE, (1,), None),
        (
            Types.MAP(Types.TUPLE([INT]), INT),
            Types.MAP(Types.TUPLE([INT, INT]), INT),
            MIGRATION,
            {(1,): 2},
            {(1, None): 2},
        ),
        (Types.MAP(Types.TUPLE([INT, INT]), INT), Types.MAP(Types.TUPLE([INT]), INT), INCOMPATIBLE, {(1, 1): 2}, None),
        (INT, PICKLED, MIGRATION, 1, 1),
        (row(a=INT), PICKLED, MIGRATION, (1,), Row(a=1)),
        (PICKLED, PICKLED, AS_IS, {"a"}, {"a"}),
        (PICKLED, INT, MIGRATION, 5, 5),
        (PICKLED, row(a=INT, b=STRING), MIGRATION, Row(1, "x"), Row(a=1, b="x")),
        (PICKLED, row(a=INT, b=STRING), MIGRATION, Row(b="x", a=1), Row(a=1, b="x")),
        (PICKLED, Types.MAP(STRING, Types.LIST(INT)), MIGRATION, {"a": [1]}, {"a": [1]}),
        (UserType(Scaled(10)), UserType(Scaled(10)), AS_IS, 1.5, 1.5),
        (UserType(Scaled(10)), UserType(Scaled(100)), MIGRATION, 1.5, 1.5),
        (UserType(Scaled(10)), UserType(Renamed(10)), INCOMPATIBLE, 1.5, None),
        (UserType(Scaled(10)), PICKLED, MIGRATION, 1.5, 1.5),
        (UserType(Scaled(10)), Types.DOUBLE(), INCOMPATIBLE, 1.5, None),
        (Types.DOUBLE(), UserType(Scaled(10)), INCOMPATIBLE, 1.5, None),
        (PICKLED, UserType(Scaled(10)), INCOMPATIBLE, 1.5, None),
        (UserType(Named()), UserType(Scaled(10)), MIGRATION, "1.5", 1.5),
        (Types.LIST(UserType(Named())), Types.LIST(UserType(Scaled(10))), MIGRATION, ["1.5", None], [1.5, None]),
        (UserType(Named()), Types.DOUBLE(), MIGRATION, "1.5", 1.5),
        (Types.LIST(UserType(Named())), Types.LIST(Types.DOUBLE()), MIGRATION, ["1.5", None], [1.5, None]),
        (Types.LIST(UserType(Scaled(10))), Types.LIST(PICKLED), MIGRATION, [1.5], [1.5]),
        (Types.LIST(UserType(Scaled(10))), Types.LIST(UserType(Scaled(10))), AS_IS, [1.5], [1.5]),
        (Types.LIST(UserType(Scaled(10))), Types.LIST(UserType(Scaled(100))), MIGRATION, [1.5], [1.5]),
    ],
    ids=str,
)
def test_evolution(old, new, kind, before, after):
    answer, values = evolve(old, new, before, None)
    assert answer.kind is kind, answer.text
    if kind is INCOMPATIBLE:
        with pytest.raises(TypeError):
            answer.migrate([before])
    else:
        assert values == [after, None]
        assert type(values[0]) is type(after)


def test_the_text_says_what_differs():
    answer, _ = evolve(row(a=INT, b=STRING, c=INT), row(a=LONG, c=STRING, d=INT))
    assert answer.is_incompatible()
    assert answer.text == (
        "RowTypeInfo(a: Integer, b: String, c: Integer) became RowTypeInfo(a: Long, c: String, d: Integer): "
        "field 'a': Integer became Long; field 'c': Integer became String; "
        "field 'd' was added, and is None in old values; field 'b' was removed"
    )
    answer, _ = evolve(Types.TUPLE([INT]), Types.TUPLE([INT, INT]))
    assert answer.text.endswith("field 1 was added, and is None in old values")
    answer, _ = evolve(row(a=INT), row(b=INT))
    assert answer.text.endswith("; no field is left")


def test_only_changes_that_keep_values_apart_are_for_keys():
    assert evolve(INT, LONG)[0].distinct
    assert evolve(row(a=INT), row(a=INT, b=INT))[0].distinct
    assert not evolve(row(a=INT, b=INT), row(a=INT))[0].distinct
    assert not evolve(Types.TUPLE([row(a=INT, b=INT)]), Types.TUPLE([row(a=INT)]))[0].distinct


def test_rows_keep_their_kind_and_old_values_stay_as_they_are():
    old = row(a=INT, b=INT)
    answer = (
        old.create_serializer().snapshot_configuration().resolve_schema_compatibility(row(b=INT).create_serializer())
    )
    value = Row.of_kind(RowKind.DELETE, a=1, b=2)
    assert answer.migrate([value]) == [Row.of_kind(RowKind.DELETE, b=2)]
    assert value == Row.of_kind(RowKind.DELETE, a=1, b=2)


@pytest.mark.parametrize(
    ("new", "value", "message"),
    [
        (INT, "a", "'a' .* Integer"),
        (Types.FLOAT(), 0.1, "0.1 .* Float: it would become 0.1000"),
        (Types.SQL_TIME(), datetime.time(1, 2, 3, 4), "would become datetime.time"),
        (row(a=INT), Row(a=1, b=2), "would become Row"),
        (Types.LIST(Types.FLOAT()), [0.5, 0.1], "would become"),
    ],
)
def test_a_pickled_value_that_does_not_fit_the_new_type_is_named(new, value, message):
    with pytest.raises(TypeError, match=message):
        evolve(PICKLED, new, value)


def test_a_user_serializer_is_stored_by_name_and_attributes():
    data = Scaled(10).snapshot_configuration().to_data()
    assert data["snapshot"] == "class"
    assert data["content"] == {"class": f"{__name__}:Scaled", "state": {"plain": {"scale": 10}}}
    assert stored(Scaled(10).snapshot_configuration()).restore_serializer() == Scaled(10)
    exact = stored(Scaled(Decimal("0.1")).snapshot_configuration()).restore_serializer()
    assert exact.scale == Decimal("0.1")


def test_a_snapshot_is_a_copy():
    serializer = Scaled([1])
    snapshot = serializer.snapshot_configuration()
    serializer.scale.append(2)
    snapshot.restore_serializer().scale.append(3)
    assert snapshot.restore_serializer().scale == [1]


def test_a_local_serializer_is_stored_whole():
    class Local(Scaled):
        pass

    snapshot = stored(Local(10).snapshot_configuration())
    old = snapshot.restore_serializer()
    assert old.deserialize_all(Local(10).serialize_all([1.5])) == [1.5]
    assert not snapshot.resolve_schema_compatibility(Local(10)).is_incompatible()


def test_a_serializer_that_cannot_be_stored_says_so():
    with pytest.raises(TypeError, match=r"The serialiser Scaled cannot be stored .*picklable"):
        Scaled(threading.Lock()).snapshot_configuration()


class WithState(Scaled):
    """Leaves out what cannot be stored."""

    def __init__(self, scale):
        super().__init__(scale)
        self.cache = object()

    def __getstate__(self):
        return {"scale": self.scale}

    def __setstate__(self, state):
        self.__init__(state["scale"])


def test_a_serializer_says_itself_what_is_stored():
    snapshot = stored(WithState(10).snapshot_configuration())
    assert snapshot.restore_serializer().cache is not None
    assert snapshot.resolve_schema_compatibility(WithState(10)).is_compatible_as_is()


def test_a_class_that_is_gone_is_named():
    data = Scaled(10).snapshot_configuration().to_data()
    data["content"]["class"] = "no_such_module:Serializer"
    gone = TypeSerializerSnapshot.from_data(data)
    assert gone.resolve_schema_compatibility(Scaled(10)).is_incompatible()
    with pytest.raises(ValueError, match="no_such_module:Serializer, cannot be found"):
        gone.restore_serializer()
    # A type that contains it can still be compared.
    listed = Types.LIST(UserType(Scaled(10))).create_serializer().snapshot_configuration().to_data()
    listed["content"]["element"]["serializer"] = data
    answer = TypeSerializerSnapshot.from_data(listed).resolve_schema_compatibility(
        Types.LIST(UserType(Scaled(10))).create_serializer()
    )
    assert answer.is_incompatible()


def test_a_snapshot_of_ones_own():
    snapshot = Named().snapshot_configuration()
    data = snapshot.to_data()
    assert data == {"snapshot": f"{__name__}:NamedSnapshot", "version": 2, "content": {"encoding": "utf-8"}}
    assert isinstance(stored(snapshot), NamedSnapshot)
    with pytest.raises(ValueError, match="version 3 .* up to 2"):
        TypeSerializerSnapshot.from_data({**data, "version": 3})


def test_a_snapshot_is_read_where_no_type_was_used_yet():
    data = json.dumps(Types.INT().create_serializer().snapshot_configuration().to_data())
    program = (
        "import json, sys\n"
        "from flintstream.common.serializer_snapshot import TypeSerializerSnapshot\n"
        "print(TypeSerializerSnapshot.from_data(json.loads(sys.argv[1])))"
    )
    found = subprocess.run([sys.executable, "-c", program, data], capture_output=True, text=True, check=True)
    assert found.stdout == "TypeSnapshot(Integer)\n"
