"""Decides by itself which subtask a record goes to: urgent tickets have the first one for themselves."""

from flintstream.common import Types
from flintstream.datastream import MapFunction, Partitioner, StreamExecutionEnvironment

TICKETS = [("urgent", "site down"), ("normal", "typo"), ("low", "wish"), ("urgent", "data lost"), ("normal", "slow")]


class UrgentFirst(Partitioner):
    """Unlike key_by, partition_custom gives no state by key: it only says where records go."""

    def partition(self, key, num_partitions):
        if key == "urgent" or num_partitions == 1:
            return 0
        return 1 + len(key) % (num_partitions - 1)


class Handle(MapFunction):
    def open(self, runtime_context):
        self.desk = runtime_context.get_index_of_this_subtask() + 1

    def map(self, ticket):
        priority, text = ticket
        return f"desk {self.desk} takes {text!r} ({priority})"


def main():
    env = StreamExecutionEnvironment.get_execution_environment()
    (
        env.from_collection(TICKETS, Types.TUPLE([Types.STRING(), Types.STRING()]))
        .partition_custom(UrgentFirst(), lambda ticket: ticket[0])
        .map(Handle(), Types.STRING())
        .set_parallelism(3)
        .print()
        .set_parallelism(1)
    )
    env.execute("tickets")


if __name__ == "__main__":
    main()
