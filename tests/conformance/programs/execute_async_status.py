# compare: exact
# execute_async gives a JobClient.
import time

from flintstream.common import JobStatus, Types
from flintstream.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)


def slowly(value):
    time.sleep(0.7)
    return value * 100


env.from_collection([1, 2, 3], Types.INT()).map(slowly, Types.INT()).print()
client = env.execute_async("async job")
print("id has 32 characters:", len(str(client.get_job_id())) == 32)
status = client.get_job_status().result()
print("status while it runs:", isinstance(status, JobStatus), status.is_terminal_state())
result = client.get_job_execution_result().result()
print("same id:", str(result.get_job_id()) == str(client.get_job_id()))
print("took some time:", result.get_net_runtime() >= 0)
print("accumulators:", result.get_all_accumulator_results())

env.from_collection([4], Types.INT()).print()
done = env.execute("second")
print("has an id:", len(str(done.get_job_id())) == 32)
print(JobStatus.FINISHED.name, JobStatus.FINISHED.is_terminal_state(), JobStatus.RUNNING.is_terminal_state())
