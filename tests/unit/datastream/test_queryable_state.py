"""Queryable state in a program: descriptors, streams that are written into one, and names that clash."""

from __future__ import annotations

import pytest

from flintstream.common import Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flintstream.graph import InvalidProgramException
from flintstream.queryable_state import QueryableStateError
from flintstream.runtime.faults import UserCodeError
from flintstream.testing import LocalJob

LONG = Types.LONG()


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.fixture
def keyed(env):
    return env.from_collection([1, 2, 3], LONG).key_by(lambda n: n % 2)


def test_a_descriptor_that_is_queryable():
    descriptor = ValueStateDescriptor("v", LONG)
    assert (descriptor.is_queryable(), descriptor.get_queryable_state_name()) == (False, None)
    descriptor.set_queryable("name")
    assert (descriptor.is_queryable(), descriptor.get_queryable_state_name()) == (True, "name")
    with pytest.raises(ValueError, match="'v': the queryable name is already 'name'"):
        descriptor.set_queryable("other")


@pytest.mark.parametrize("name", ["", None, 5])
def test_a_name_must_be_a_text(keyed, name):
    with pytest.raises(ValueError, match="non-empty string"):
        ValueStateDescriptor("v", LONG).set_queryable(name)
    with pytest.raises(ValueError, match="non-empty string"):
        keyed.as_queryable_state(name)


def test_a_stream_that_is_written_into_state(env, keyed):
    stream = keyed.as_queryable_state("last").name("written").uid("u")
    assert stream.get_queryable_state_name() == "last"
    descriptor = stream.get_state_descriptor()
    assert isinstance(descriptor, ValueStateDescriptor)
    assert (descriptor.type_info, descriptor.get_queryable_state_name()) == (LONG, "last")
    node = env.generate_stream_graph().nodes[max(env.generate_stream_graph().nodes)]
    assert (node.name, node.uid) == ("written", "u")


def test_the_descriptor_of_the_program_is_not_changed(keyed):
    descriptor = ListStateDescriptor("l", LONG)
    stream = keyed.as_queryable_state("all", descriptor)
    assert not descriptor.is_queryable()
    assert stream.get_state_descriptor().get_queryable_state_name() == "all"


def test_a_descriptor_with_another_name_is_refused(keyed):
    descriptor = ListStateDescriptor("l", LONG)
    descriptor.set_queryable("this")
    with pytest.raises(ValueError, match="queryable as 'this', and not as 'that'"):
        keyed.as_queryable_state("that", descriptor)
    keyed.as_queryable_state("this", descriptor)


def test_what_is_no_descriptor_is_refused(keyed):
    with pytest.raises(TypeError, match="expected a state descriptor"):
        keyed.as_queryable_state("name", LONG)


def test_two_streams_of_one_name_are_refused_when_the_graph_is_built(env, keyed):
    keyed.as_queryable_state("last").name("first")
    keyed.as_queryable_state("last").name("second")
    with pytest.raises(InvalidProgramException, match="'first' and 'second' both have a queryable state 'last'"):
        env.generate_stream_graph()


def test_names_that_only_functions_know_clash_when_they_are_opened(env, keyed):
    class Counts(KeyedProcessFunction):
        def open(self, runtime_context):
            descriptor = ValueStateDescriptor("v", LONG)
            descriptor.set_queryable("counts")
            runtime_context.get_state(descriptor)

        def process_element(self, value, ctx):
            pass

    keyed.process(Counts()).name("first")
    keyed.process(Counts()).name("second")
    with pytest.raises((QueryableStateError, UserCodeError), match="both have a queryable state 'counts'"):
        LocalJob(env.generate_stream_graph()).run()


def test_a_map_state_takes_pairs_and_dicts(env):
    records = [("a", 1), {"b": 2, "c": 3}, ["d", 4]]
    stream = env.from_collection(records).key_by(lambda record: 0)
    stream.as_queryable_state("m", MapStateDescriptor("m", Types.STRING(), LONG))
    job = LocalJob(env.generate_stream_graph())
    job.open()
    while not job.run_epoch():
        pass
    assert dict(job.query_state("m", 0).items()) == {"a": 1, "b": 2, "c": 3, "d": 4}
    job.close()


def test_a_map_state_takes_nothing_else(env):
    env.from_collection([5]).key_by(lambda record: 0).as_queryable_state("m", MapStateDescriptor("m", LONG, LONG))
    with pytest.raises(UserCodeError, match="a map state takes records that are pairs or dicts, got a int"):
        LocalJob(env.generate_stream_graph()).run()
