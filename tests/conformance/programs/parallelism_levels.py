# compare: sorted
# Parallelism: from the configuration, the environment, the operator.
from flintstream.common import Configuration, Types
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.functions import MapFunction


class Parallelism(MapFunction):
    def __init__(self, label):
        self.label = label

    def open(self, runtime_context):
        self.n = runtime_context.get_number_of_parallel_subtasks()

    def map(self, value):
        return value + " %s=%d" % (self.label, self.n)


config = Configuration()
config.set_integer("parallelism.default", 2)
env = StreamExecutionEnvironment.get_execution_environment(config)
print("from the configuration", env.get_parallelism())
source = env.from_collection(["x", "y"], Types.STRING())


def build():
    return (
        source.map(Parallelism("default"), Types.STRING())
        .map(Parallelism("own"), Types.STRING())
        .set_parallelism(3)
        .map(Parallelism("single"), Types.STRING())
        .force_non_parallel()
        .map(Parallelism("last"), Types.STRING())
        .set_max_parallelism(64)
    )


for value in build().execute_and_collect():
    print(value)
env.set_parallelism(1)
print("from the environment", env.get_parallelism())
for value in build().execute_and_collect():
    print(value)
env.set_max_parallelism(32)
print("max", env.get_max_parallelism())
