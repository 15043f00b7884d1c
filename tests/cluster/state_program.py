"""Makes a savepoint on a cluster and reads it there; prints what was read, as a line of JSON.

Arguments: a module of the user's, which is not needed, and the directory of the savepoint.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.state import ValueStateDescriptor
from flintstream.state_processor import (
    KeyedStateBootstrapFunction,
    KeyedStateReaderFunction,
    OperatorTransformation,
    SavepointReader,
    SavepointWriter,
)

LAST = ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY())


@dataclass(frozen=True)
class Visit:
    """A class of this script, which only the driver has."""

    page: int


class Write(KeyedStateBootstrapFunction):
    def open(self, runtime_context):
        self.last = runtime_context.get_state(LAST)

    def process_element(self, value, ctx):
        self.last.update(Visit(value.id))


class Read(KeyedStateReaderFunction):
    def open(self, runtime_context):
        self.last = runtime_context.get_state(LAST)

    def read_key(self, key, ctx, out):
        import flintstream

        assert isinstance(self.last.value(), Visit)
        out.collect((key, self.last.value().page, flintstream.__file__))


def main():
    from flintstream.spark.session import get_or_create_session

    env = StreamExecutionEnvironment.get_execution_environment()
    spark = get_or_create_session(env.get_configuration().to_dict())
    visits = OperatorTransformation.bootstrap_with(spark.range(1000)).key_by(lambda row: row.id % 7)
    path = SavepointWriter.new_savepoint(env, 32).with_operator("visits", visits.transform(Write())).write(sys.argv[2])
    pair = Types.TUPLE([Types.LONG(), Types.LONG(), Types.STRING()])
    frame = SavepointReader.read(env, path).read_keyed_state("visits", Read(), out_type_info=pair)
    print(json.dumps(sorted(map(tuple, frame.collect()))))


if __name__ == "__main__":
    main()
