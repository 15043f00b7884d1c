# compare: exact
# Configuration and the environment's settings.
from flintstream.common import Configuration
from flintstream.datastream import RuntimeExecutionMode, StreamExecutionEnvironment

config = Configuration()
config.set_string("parallelism.default", "4")
config.set_boolean("pipeline.object-reuse", True)
config.set_integer("my.number", 7)
config.set_float("my.float", 0.5)
print(config.get_integer("parallelism.default", 1), config.get_string("absent", "fallback"))
print(config.get_integer("my.number", 0), config.get_float("my.float", 0.0), config.get_boolean("absent", False))
print(config.contains_key("my.number"), sorted(config.key_set()))
print(sorted(config.to_dict().items()))
other = Configuration(config)
print(other == config, other.remove_config("my.number"), other.remove_config("my.number"), config.contains_key("my.number"))
more = Configuration.from_dict({"a": "b"})
other.add_all(more)
other.add_all(more, "prefix.")
print(sorted(other.key_set()))

env = StreamExecutionEnvironment.get_execution_environment(config)
print(env.get_parallelism(), env.get_config().is_object_reuse_enabled())
env.set_parallelism(2)
print(env.get_parallelism(), env.get_config().get_parallelism(), env.get_max_parallelism())
env.configure(Configuration.from_dict({"parallelism.default": "5"}))
print(env.get_parallelism())
env.set_buffer_timeout(50)
print(env.get_buffer_timeout())
env.get_config().set_auto_watermark_interval(99)
print(env.get_config().get_auto_watermark_interval())
env.get_config().set_global_job_parameters({"k": "v"})
print(env.get_config().get_global_job_parameters())
print(RuntimeExecutionMode.BATCH.name, [mode.name for mode in RuntimeExecutionMode])
