"""User functions, state descriptors and the small descriptions."""

from __future__ import annotations

from typing import Any

import pytest
from tests.aggregates import Sum

from flintstream.common import Time, Types
from flintstream.datastream import (
    AsyncRetryStrategy,
    EmbeddedRocksDBStateBackend,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
    KeyedProcessFunction,
    MapFunction,
    MemorySize,
    PredefinedOptions,
    ReduceFunction,
    RichSinkFunction,
    SinkFunction,
    SlotSharingGroup,
    TimerService,
)
from flintstream.datastream.functions import KeyedStateStore, RuntimeContext
from flintstream.datastream.state import (
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueState,
    ValueStateDescriptor,
)
from flintstream.runtime.operators.process import ProcessContext
from flintstream.runtime.state.views import ListStateView, MapStateView, ValueStateView
from flintstream.runtime.time.timers import TimeView


class Largest(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return max(value1, value2)


def test_a_function_must_have_its_method() -> None:
    with pytest.raises(TypeError, match="abstract"):
        MapFunction()  # type: ignore[abstract]


def test_what_the_runtime_gives_is_what_the_interfaces_say() -> None:
    assert issubclass(ValueStateView, ValueState)
    assert issubclass(ListStateView, ListState)
    assert issubclass(MapStateView, MapState)
    assert issubclass(RuntimeContext, KeyedStateStore)
    assert issubclass(TimeView, TimerService)
    assert issubclass(ProcessContext, KeyedProcessFunction.Context)


def test_sink_functions_are_python() -> None:
    class Mine(RichSinkFunction):
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def invoke(self, value: Any, context: Any) -> None:
            self.seen.append(value)

    sink = Mine()
    sink.invoke(1, None)
    assert sink.seen == [1]
    with pytest.raises(NotImplementedError, match="SinkFunction"):
        SinkFunction("org.example.Sink")
    with pytest.raises(NotImplementedError, match="Pass the function object itself"):
        sink.get_java_function()


def test_descriptors() -> None:
    value = ValueStateDescriptor("v", Types.LONG(), default_value=0)
    assert (value.name, value.get_name(), value.type_info, value.default_value) == ("v", "v", Types.LONG(), 0)
    assert ValueStateDescriptor("v", Types.LONG()).default_value is None
    assert ListStateDescriptor("l", Types.INT()).type_info == Types.LIST(Types.INT())
    assert MapStateDescriptor("m", Types.INT(), Types.STRING()).type_info == Types.MAP(Types.INT(), Types.STRING())
    assert ReducingStateDescriptor("r", max, Types.INT()).get_reduce_function().reduce(1, 2) == 2
    function = Largest()
    assert ReducingStateDescriptor("r", function, Types.INT()).get_reduce_function() is function
    assert AggregatingStateDescriptor("a", Sum(), Types.INT()).get_agg_function().add(1, 2) == 3


def test_descriptors_refuse() -> None:
    with pytest.raises(ValueError, match="ValueStateDescriptor: name must be a non-empty string"):
        ValueStateDescriptor("", Types.INT())
    with pytest.raises(TypeError, match="ListStateDescriptor 'l': the type must be one of Types"):
        ListStateDescriptor("l", int)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="ReducingStateDescriptor 'r': reduce_function must be"):
        ReducingStateDescriptor("r", 5, Types.INT())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="AggregatingStateDescriptor 'a': agg_function must be"):
        AggregatingStateDescriptor("a", max, Types.INT())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="ValueStateDescriptor 'v': ttl_config must be a StateTtlConfig"):
        ValueStateDescriptor("v", Types.INT()).enable_time_to_live(5)  # type: ignore[arg-type]


def test_time_to_live() -> None:
    builder = StateTtlConfig.new_builder(Time.seconds(5)).update_ttl_on_read_and_write()
    config = builder.return_expired_if_not_cleaned_up().cleanup_incrementally(10, True).build()
    assert config.get_ttl() == Time.seconds(5)
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
    cleanup = config.get_cleanup_strategies()
    incremental = cleanup.get_incremental_cleanup_strategy()
    assert incremental is not None
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (10, True)
    rocksdb = cleanup.get_rocksdb_compact_filter_cleanup_strategy()
    assert rocksdb is not None
    assert rocksdb.get_query_time_after_num_entries() == 1000
    quiet = StateTtlConfig.new_builder(Time.seconds(5)).cleanup_full_snapshot().disable_cleanup_in_background().build()
    assert quiet.get_cleanup_strategies().in_full_snapshot()
    assert quiet.get_cleanup_strategies().get_incremental_cleanup_strategy() is None
    descriptor = ValueStateDescriptor("v", Types.INT())
    descriptor.enable_time_to_live(config)
    assert descriptor._ttl_config is config
    with pytest.raises(ValueError, match="ttl must be greater than zero"):
        StateTtlConfig.new_builder(Time.seconds(0))


def test_memory_sizes() -> None:
    size = MemorySize.of_mebi_bytes(3)
    assert (size.get_bytes(), size.get_kibi_bytes(), size.get_gibi_bytes()) == (3 << 20, 3 << 10, 0)
    assert [str(MemorySize(n)) for n in (3 << 20, 1500, 1024, 0)] == ["3 mb", "1500 bytes", "1 kb", "0 bytes"]
    assert MemorySize(1) < MemorySize(2) <= MemorySize(2)
    with pytest.raises(ValueError, match="at least 0, got -1"):
        MemorySize(-1)


def test_slot_sharing_groups() -> None:
    group = SlotSharingGroup.builder("g").set_cpu_cores(1).set_task_heap_memory_mb(10)
    built = group.set_external_resource("gpu", 1).build()
    assert (built.get_cpu_cores(), built.get_external_resources()) == (1.0, {"gpu": 1.0})
    assert built.get_task_heap_memory() == MemorySize.of_mebi_bytes(10)
    assert built.get_managed_memory() == MemorySize(0)
    assert built == group.build()
    assert SlotSharingGroup.builder("g").build().get_cpu_cores() is None
    with pytest.raises(ValueError, match="'g': cpu_cores and task_heap_memory are required"):
        SlotSharingGroup.builder("g").set_managed_memory_mb(3).build()
    with pytest.raises(ValueError, match="'g': cpu_cores must be greater than zero"):
        SlotSharingGroup.builder("g").set_cpu_cores(0)
    with pytest.raises(ValueError, match="'g': the task heap memory should be positive"):
        SlotSharingGroup.builder("g").set_task_heap_memory(MemorySize(0))


def test_backends_and_storages() -> None:
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths("/a", "/b")
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    assert backend.get_db_storage_paths() == ["/a", "/b"]
    assert backend.get_predefined_options() is PredefinedOptions.FLASH_SSD_OPTIMIZED
    assert (backend.get_number_of_transfer_threads(), backend.is_incremental_checkpoints_enabled()) == (
        4,
        False,
    )
    storage = FileSystemCheckpointStorage("file:///c")
    assert (storage.get_min_file_size_threshold(), storage.get_write_buffer_size()) == (20480, 4096)
    assert JobManagerCheckpointStorage().get_max_state_size() == 5 << 20
    assert JobManagerCheckpointStorage("file:///c", 100)._options() == {
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": "file:///c",
        "execution.checkpointing.data-inline-threshold": "100 b",
        "flint.checkpointing.max-memory-state-size": "100 b",
    }
    with pytest.raises(ValueError, match="a URL with its scheme"):
        FileSystemCheckpointStorage("/c")
    assert FileSystemCheckpointStorage("file:///c/d//").get_checkpoint_path() == "file:///c/d"
    with pytest.raises(ValueError, match="cannot use the root directory"):
        FileSystemCheckpointStorage("file:///")
    with pytest.raises(ValueError, match="max_state_size"):
        JobManagerCheckpointStorage(max_state_size=-1)


def test_retry_strategies() -> None:
    growing = AsyncRetryStrategy.exponential_backoff(4, 100, 500, 2.0, None, None)
    assert [growing.get_backoff_time_millis(n) for n in (1, 2, 3, 4)] == [100, 200, 400, 500]
    assert [growing.can_retry(n) for n in (4, 5)] == [True, False]
    assert not AsyncRetryStrategy.no_restart().can_retry(1)
    with pytest.raises(ValueError, match="max_attempts must be greater than zero, got 0"):
        AsyncRetryStrategy.fixed_delay(0, 1, None, None)
