# compare: sorted
# The runtime context of a function with two subtasks.
from flintstream.common import Types
from flintstream.datastream import ProcessFunction, StreamExecutionEnvironment


class Report(ProcessFunction):
    def open(self, runtime_context):
        self.lines = [
            "parallelism %d" % runtime_context.get_number_of_parallel_subtasks(),
            "max parallelism %d" % runtime_context.get_max_number_of_parallel_subtasks(),
            "attempt %d" % runtime_context.get_attempt_number(),
            "parameter %s" % runtime_context.get_job_parameter("name", "none"),
            "other %s" % runtime_context.get_job_parameter("other", "none"),
        ]
        self.index = runtime_context.get_index_of_this_subtask()
        self.task_name = runtime_context.get_task_name()
        self.with_subtasks = runtime_context.get_task_name_with_subtasks()

    def process_element(self, value, ctx):
        yield "name ends so: %s" % self.with_subtasks.endswith("(%d/2)#0" % (self.index + 1))
        yield "name begins so: %s" % self.with_subtasks.startswith(self.task_name)
        yield "names the operator: %s" % ("my report" in self.task_name)
        for line in self.lines:
            yield line


env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
env.get_config().set_global_job_parameters({"name": "value"})
ds = env.from_collection(list(range(20)), Types.INT()).rebalance().process(Report(), Types.STRING()).name("my report")
for line in sorted(set(ds.execute_and_collect())):
    print(line)
