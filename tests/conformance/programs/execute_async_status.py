# compare: exact
# execute_async gives a JobClient.
from flintstream.common import JobStatus, Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection([1, 2, 3], Types.INT()).map(lambda v: v * 100, Types.INT()).print()
client = env.execute_async("async job")
print("id has 32 characters:", len(str(client.get_job_id())) == 32)
result = client.get_job_execution_result().result()
print("same id:", str(result.get_job_id()) == str(client.get_job_id()))
print("took some time:", result.get_net_runtime() >= 0)
print("accumulators:", result.get_all_accumulator_results())

result = env.from_collection([4], Types.INT())
result.print()
done = env.execute("second")
print("has an id:", len(str(done.get_job_id())) == 32)
print(JobStatus.FINISHED.name, JobStatus.FINISHED.is_terminal_state(), JobStatus.RUNNING.is_terminal_state())
