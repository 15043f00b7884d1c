# compare: exact
# ListState: add, add_all, get, update, clear.
from flintstream.common import Types
from flintstream.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flintstream.datastream.state import ListStateDescriptor


class Buffer(KeyedProcessFunction):
    def open(self, runtime_context):
        self.items = runtime_context.get_list_state(ListStateDescriptor("items", Types.INT()))

    def process_element(self, value, ctx):
        key, command, numbers = value
        if command == "add":
            self.items.add(numbers[0])
        elif command == "add_all":
            self.items.add_all(numbers)
        elif command == "update":
            self.items.update(numbers)
        elif command == "clear":
            self.items.clear()
        yield "%s %s -> %s" % (key, command, list(self.items.get()))


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
commands = [
    ("k", "get", []),
    ("k", "add", [1]),
    ("k", "add", [2]),
    ("m", "add", [9]),
    ("k", "add_all", [3, 4]),
    ("k", "update", [7, 8]),
    ("k", "add", [9]),
    ("k", "clear", []),
    ("m", "get", []),
    ("k", "add", [5]),
    ("m", "update", []),
]
env.from_collection(commands).key_by(lambda c: c[0]).process(Buffer(), Types.STRING()).print()
env.execute()
