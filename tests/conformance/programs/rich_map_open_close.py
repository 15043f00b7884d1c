# compare: exact
# open() sees the runtime context and job parameters; the function keeps what it sets there.
from flintstream.common import Types
from flintstream.datastream import StreamExecutionEnvironment
from flintstream.datastream.functions import FilterFunction, FlatMapFunction, MapFunction


class Prefix(MapFunction):
    def __init__(self, prefix):
        self.prefix = prefix
        self.seen = None

    def open(self, runtime_context):
        self.seen = 0
        self.who = "%d/%d" % (
            runtime_context.get_index_of_this_subtask(),
            runtime_context.get_number_of_parallel_subtasks(),
        )
        self.suffix = runtime_context.get_job_parameter("suffix", "?")
        self.missing = runtime_context.get_job_parameter("missing", "default")

    def map(self, value):
        self.seen += 1
        return "%s%s%s %s %s #%d" % (self.prefix, value, self.suffix, self.missing, self.who, self.seen)

    def close(self):
        self.seen = None


class Repeat(FlatMapFunction):
    def open(self, runtime_context):
        self.times = int(runtime_context.get_job_parameter("times", "1"))

    def flat_map(self, value):
        return [value] * self.times


class EveryOther(FilterFunction):
    def open(self, runtime_context):
        self.count = 0

    def filter(self, value):
        self.count += 1
        return self.count % 2 == 1


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.get_config().set_global_job_parameters({"suffix": "!", "times": "3"})
env.from_collection(["a", "b", "c"], Types.STRING()).flat_map(Repeat(), Types.STRING()).filter(EveryOther()).map(
    Prefix("<"), Types.STRING()
).print()
env.execute()
