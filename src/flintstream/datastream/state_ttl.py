"""StateTtlConfig: the time-to-live of state entries. Imported from `flintstream.datastream.state`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from flintstream.common.time import Duration, Time

__all__ = ["StateTtlConfig"]


class _UpdateType(Enum):
    """Which accesses reset the time-to-live of an entry."""

    Disabled = 0
    """Nothing expires."""
    OnCreateAndWrite = 1
    """Writes reset it."""
    OnReadAndWrite = 2
    """Reads and writes reset it."""


class _StateVisibility(Enum):
    """Whether an expired entry that has not been removed yet is visible."""

    ReturnExpiredIfNotCleanedUp = 0
    NeverReturnExpired = 1


class _TtlTimeCharacteristic(Enum):
    """The clock by which entries expire."""

    ProcessingTime = 0


class _Strategies(Enum):
    """The cleanup strategies."""

    FULL_STATE_SCAN_SNAPSHOT = 0
    INCREMENTAL_CLEANUP = 1
    ROCKSDB_COMPACTION_FILTER = 2


class _CleanupStrategy:
    """A way of removing expired entries."""


class _EmptyCleanupStrategy(_CleanupStrategy):
    """A cleanup strategy without settings."""


class _IncrementalCleanupStrategy(_CleanupStrategy):
    """Checks a few entries with each state access."""

    def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
        if cleanup_size < 1:
            raise ValueError(f"cleanup_incrementally: cleanup_size must be at least 1, got {cleanup_size!r}")
        self._cleanup_size = cleanup_size
        self._run_cleanup_for_every_record = run_cleanup_for_every_record

    def get_cleanup_size(self) -> int:
        """Returns the number of entries checked each time."""
        return self._cleanup_size

    def run_cleanup_for_every_record(self) -> bool:
        """Returns whether entries are checked for every record, even if it does not access the state."""
        return self._run_cleanup_for_every_record


class _RocksdbCompactFilterCleanupStrategy(_CleanupStrategy):
    """Removes expired entries from RocksDB in the background."""

    def __init__(self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None) -> None:
        self._query_time_after_num_entries = query_time_after_num_entries
        self._periodic_compaction_time = periodic_compaction_time or Duration.of_days(30)

    def get_query_time_after_num_entries(self) -> int:
        """Returns the number of entries after which the clock is read again."""
        return self._query_time_after_num_entries

    def get_periodic_compaction_time(self) -> Duration:
        """Returns the time within which all entries are looked at."""
        return self._periodic_compaction_time


class _CleanupStrategies:
    """The enabled cleanup strategies."""

    Strategies = _Strategies
    CleanupStrategy = _CleanupStrategy
    EmptyCleanupStrategy = _EmptyCleanupStrategy
    IncrementalCleanupStrategy = _IncrementalCleanupStrategy
    RocksdbCompactFilterCleanupStrategy = _RocksdbCompactFilterCleanupStrategy
    EMPTY_STRATEGY = _EmptyCleanupStrategy()

    def __init__(self, strategies: Mapping[_Strategies, _CleanupStrategy], is_cleanup_in_background: bool) -> None:
        self._strategies = dict(strategies)
        self._is_cleanup_in_background = is_cleanup_in_background

    def is_cleanup_in_background(self) -> bool:
        """Returns whether the backend removes expired entries in the background."""
        return self._is_cleanup_in_background

    def in_full_snapshot(self) -> bool:
        """Returns whether full snapshots omit expired entries."""
        return _Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

    def get_incremental_cleanup_strategy(self) -> _IncrementalCleanupStrategy | None:
        """Returns the incremental cleanup settings; None if disabled."""
        strategy = self._strategies.get(_Strategies.INCREMENTAL_CLEANUP)
        if isinstance(strategy, _IncrementalCleanupStrategy):
            return strategy
        return _IncrementalCleanupStrategy(5, False) if self._is_cleanup_in_background else None

    def get_rocksdb_compact_filter_cleanup_strategy(self) -> _RocksdbCompactFilterCleanupStrategy | None:
        """Returns the RocksDB compaction filter settings; None if disabled."""
        strategy = self._strategies.get(_Strategies.ROCKSDB_COMPACTION_FILTER)
        if isinstance(strategy, _RocksdbCompactFilterCleanupStrategy):
            return strategy
        return _RocksdbCompactFilterCleanupStrategy(1000) if self._is_cleanup_in_background else None


class _Builder:
    """Builds a `StateTtlConfig`; each method returns the builder."""

    def __init__(self, ttl: Time) -> None:
        self._ttl = _checked_ttl(ttl)
        self._update_type = _UpdateType.OnCreateAndWrite
        self._state_visibility = _StateVisibility.NeverReturnExpired
        self._ttl_time_characteristic = _TtlTimeCharacteristic.ProcessingTime
        self._is_cleanup_in_background = True
        self._strategies: dict[_Strategies, _CleanupStrategy] = {}

    def set_update_type(self, update_type: _UpdateType) -> _Builder:
        """Sets which accesses reset the time-to-live of an entry."""
        self._update_type = update_type
        return self

    def update_ttl_on_create_and_write(self) -> _Builder:
        """Writes reset the time-to-live of an entry; the default."""
        return self.set_update_type(_UpdateType.OnCreateAndWrite)

    def update_ttl_on_read_and_write(self) -> _Builder:
        """Reads and writes reset the time-to-live of an entry."""
        return self.set_update_type(_UpdateType.OnReadAndWrite)

    def set_state_visibility(self, state_visibility: _StateVisibility) -> _Builder:
        """Sets whether expired entries are visible until they are removed."""
        self._state_visibility = state_visibility
        return self

    def return_expired_if_not_cleaned_up(self) -> _Builder:
        """Makes expired entries visible until they are removed."""
        return self.set_state_visibility(_StateVisibility.ReturnExpiredIfNotCleanedUp)

    def never_return_expired(self) -> _Builder:
        """Never returns expired entries; the default."""
        return self.set_state_visibility(_StateVisibility.NeverReturnExpired)

    def set_ttl_time_characteristic(self, ttl_time_characteristic: _TtlTimeCharacteristic) -> _Builder:
        """Sets the clock by which entries expire."""
        self._ttl_time_characteristic = ttl_time_characteristic
        return self

    def use_processing_time(self) -> _Builder:
        """Lets entries expire by the slot's clock."""
        return self.set_ttl_time_characteristic(_TtlTimeCharacteristic.ProcessingTime)

    def cleanup_full_snapshot(self) -> _Builder:
        """Omits expired entries from full snapshots."""
        self._strategies[_Strategies.FULL_STATE_SCAN_SNAPSHOT] = _CleanupStrategies.EMPTY_STRATEGY
        return self

    def cleanup_incrementally(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> _Builder:
        """Checks a few entries with each state access."""
        strategy = _IncrementalCleanupStrategy(cleanup_size, run_cleanup_for_every_record)
        self._strategies[_Strategies.INCREMENTAL_CLEANUP] = strategy
        return self

    def cleanup_in_rocksdb_compact_filter(
        self, query_time_after_num_entries: int, periodic_compaction_time: Duration | None = None
    ) -> _Builder:
        """Removes expired entries from RocksDB in rounds: see the guide.

        :param query_time_after_num_entries: after how many entries the clock is read again; at least 1.
        :param periodic_compaction_time: all entries are looked at within this time; 30 days unless given. A shorter one
            than a quarter of the time-to-live lets rounds start sooner.
        """
        if query_time_after_num_entries < 1:
            raise ValueError(
                "cleanup_in_rocksdb_compact_filter: query_time_after_num_entries must be at least 1, got "
                f"{query_time_after_num_entries!r}"
            )
        self._strategies[_Strategies.ROCKSDB_COMPACTION_FILTER] = _RocksdbCompactFilterCleanupStrategy(
            query_time_after_num_entries, periodic_compaction_time
        )
        return self

    def disable_cleanup_in_background(self) -> _Builder:
        """Disables background cleanup; only strategies enabled explicitly apply."""
        self._is_cleanup_in_background = False
        return self

    def set_ttl(self, ttl: Time) -> _Builder:
        """Sets the time-to-live."""
        self._ttl = _checked_ttl(ttl)
        return self

    def build(self) -> StateTtlConfig:
        """Returns the configuration."""
        return StateTtlConfig(
            self._update_type,
            self._state_visibility,
            self._ttl_time_characteristic,
            self._ttl,
            _CleanupStrategies(self._strategies, self._is_cleanup_in_background),
        )


class StateTtlConfig:
    """The time-to-live of state entries, and how expired ones are removed.

    >>> config = StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_read_and_write().build()
    >>> config.get_ttl().to_milliseconds(), config.is_enabled()
    (3600000, True)

    Pass it to a descriptor's `enable_time_to_live`.
    """

    UpdateType = _UpdateType
    StateVisibility = _StateVisibility
    TtlTimeCharacteristic = _TtlTimeCharacteristic
    CleanupStrategies = _CleanupStrategies
    Builder = _Builder

    def __init__(
        self,
        update_type: _UpdateType,
        state_visibility: _StateVisibility,
        ttl_time_characteristic: _TtlTimeCharacteristic,
        ttl: Time,
        cleanup_strategies: _CleanupStrategies,
    ) -> None:
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = _checked_ttl(ttl)
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: Time) -> _Builder:
        """Returns a builder with that time-to-live."""
        return _Builder(ttl)

    def get_update_type(self) -> _UpdateType:
        """Returns which accesses reset the time-to-live of an entry."""
        return self._update_type

    def get_state_visibility(self) -> _StateVisibility:
        """Returns whether expired entries are visible until they are removed."""
        return self._state_visibility

    def get_ttl(self) -> Time:
        """Returns the time-to-live."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> _TtlTimeCharacteristic:
        """Returns the clock by which entries expire."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Returns whether entries expire at all."""
        return self._update_type is not _UpdateType.Disabled

    def get_cleanup_strategies(self) -> _CleanupStrategies:
        """Returns the cleanup strategies."""
        return self._cleanup_strategies

    def __repr__(self) -> str:
        return (
            f"StateTtlConfig(ttl={self._ttl}, update_type={self._update_type.name}, "
            f"state_visibility={self._state_visibility.name})"
        )


def _checked_ttl(ttl: Time) -> Time:
    if not isinstance(ttl, Time):
        raise TypeError(f"StateTtlConfig: ttl must be a Time, such as Time.hours(1), got {ttl!r}")
    if ttl.to_milliseconds() <= 0:
        raise ValueError(f"StateTtlConfig: ttl must be greater than zero, got {ttl}")
    return ttl
