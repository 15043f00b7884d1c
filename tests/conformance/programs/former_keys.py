# compare: exact
# Keys that Flink has renamed still work; where both are set, the present one wins.
from flintstream.common import Configuration
from flintstream.datastream import (
    EmbeddedRocksDBStateBackend,
    FileSystemCheckpointStorage,
    SlotSharingGroup,
    StreamExecutionEnvironment,
)
from flintstream.datastream.slot_sharing_group import MemorySize


def configured(**settings):
    configuration = Configuration()
    for key, value in settings.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.configure(configuration)
    return env


print(configured(**{"pipeline.operator-chaining": "false"}).is_chaining_enabled())
both = {"pipeline.operator-chaining": "false", "pipeline.operator-chaining.enabled": "true"}
print(configured(**both).is_chaining_enabled())
print(configured(**{"execution.buffer-timeout": "1 min"}).get_buffer_timeout())
print(
    configured(**{"execution.buffer-timeout": "1 min", "execution.buffer-timeout.interval": "2 s"}).get_buffer_timeout()
)
print(configured(**{"state.savepoints.dir": "s3://bucket/sp"}).get_default_savepoint_directory())
unaligned = {"execution.checkpointing.unaligned": "true", "execution.checkpointing.interval": "10 s"}
print(configured(**unaligned).is_unaligned_checkpoints_enabled())
print(configured(**{"task.cancellation-interval": "77"}).get_config().get_task_cancellation_interval())

for text in ("[a, b]", "- a\n- b", "a;b", "", "a", "[1, true]"):
    print(Configuration.parse_list_value(text))

for path in ("hdfs://host/checkpoints/", "s3://bucket/a"):
    print(FileSystemCheckpointStorage(path).get_checkpoint_path())
backend = EmbeddedRocksDBStateBackend()
backend.set_db_storage_paths("file:///data/rocks/", "/data/more/", "file:/data/third")
print(backend.get_db_storage_paths())
for path in ("relative/path", "s3://bucket/rocks"):
    try:
        backend.set_db_storage_paths(path)
    except Exception:
        print("refused", path)
try:
    SlotSharingGroup.builder("group").set_cpu_cores(1.0).set_task_heap_memory(MemorySize(bytes_size=0))
except Exception as error:
    print("ask heap memory should be positive" in str(error))
