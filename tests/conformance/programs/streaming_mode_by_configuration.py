# compare: sorted
# The runtime mode and the default parallelism come from a Configuration.
from flintstream.common import Configuration, Types
from flintstream.datastream import StreamExecutionEnvironment

data = [("x", 1), ("y", 2), ("x", 3)]
pair = Types.TUPLE([Types.STRING(), Types.INT()])


def run(mode):
    config = Configuration()
    config.set_string("execution.runtime-mode", mode)
    config.set_integer("parallelism.default", 3)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    print(mode, "parallelism", env.get_parallelism())
    stream = env.from_collection(data, pair).key_by(lambda t: t[0], key_type=Types.STRING()).sum(1)
    for value in stream.execute_and_collect():
        print(mode, value)


run("STREAMING")
run("BATCH")
