"""Reporters: show the metrics of a job elsewhere, by Flink's settings: as lines of a log, or to Prometheus on a port."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flintstream.common.config_values import parse_boolean, parse_duration

from .prometheus import NAMINGS, PROMETHEUS, Naming
from .samples import samples

if TYPE_CHECKING:
    from flintstream.jobmaster.details import JobDetails

    from .prometheus_server import MetricsServer

__all__ = ["ReporterSettings", "Reporters", "reporter_settings"]

LOG, PROM = "log", "prometheus"
_KINDS = {
    "prom": PROM,
    "prometheus": PROM,
    "org.apache.flink.metrics.prometheus.PrometheusReporter": PROM,
    "org.apache.flink.metrics.prometheus.PrometheusReporterFactory": PROM,
    "log": LOG,
    "slf4j": LOG,
    "org.apache.flink.metrics.slf4j.Slf4jReporter": LOG,
    "org.apache.flink.metrics.slf4j.Slf4jReporterFactory": LOG,
}
_CLASSES = ("factory.class", "class")
_OPTIONS = {
    PROM: {
        *("port", "host", "names", "filterLabelValueCharacters"),
        *("scope.variables.excludes", "scope.variables.additional"),
    },
    LOG: {"interval", "scope.delimiter"},
}
_PREFIX = "metrics.reporter."
_LIST = "metrics.reporters"
_DEFAULT_PORT = "9249"
_DEFAULT_INTERVAL = "10 s"
_LOOPBACK = "127.0.0.1"
_LAST_SECONDS = 10.0
"""How long the last report may take."""
_log = logging.getLogger(__name__)
_lines = logging.getLogger("flintstream.metrics")

Details = Callable[[], "JobDetails"]


@dataclass(frozen=True)
class ReporterSettings:
    """The settings of a reporter."""

    name: str
    kind: str
    """`log` or `prometheus`."""
    interval: float = 10.0
    """Seconds between two reports to the log."""
    delimiter: str = "."
    ports: range = range(0)
    host: str = _LOOPBACK
    naming: Naming = field(default_factory=Naming)


def reporter_settings(configuration: Mapping[str, str]) -> list[ReporterSettings]:
    """Returns the reporters of a configuration; raises a ValueError for an invalid setting."""
    options: dict[str, dict[str, str]] = {}
    for key, value in configuration.items():
        if key.startswith(_PREFIX):
            name, _, option = key.removeprefix(_PREFIX).partition(".")
            options.setdefault(name, {})[option] = str(value)
    listed = [name.strip() for name in configuration.get(_LIST, "").replace(";", ",").split(",") if name.strip()]
    for name in listed:
        if name not in options and name not in _KINDS:
            raise ValueError(f"{_LIST} has {name!r}, but {_PREFIX}{name}.factory.class is not set")
    return [_settings(name, options.get(name, {})) for name in listed or options]


def _settings(name: str, options: Mapping[str, str]) -> ReporterSettings:
    key = next((each for each in _CLASSES if each in options), None)
    kind = _KINDS.get(name if key is None else options[key])
    if kind is None:
        told = f"{_PREFIX}{name}.factory.class"
        if key is None:
            raise ValueError(f"{told} is not set: it must be one of {', '.join(_KINDS)}")
        raise ValueError(f"{_PREFIX}{name}.{key} must be one of {', '.join(_KINDS)}, got {options[key]!r}")
    for option in options:
        if option not in _OPTIONS[kind] and option not in _CLASSES:
            raise ValueError(
                f"{_PREFIX}{name}.{option}: a reporter of kind {kind} has no such option; it has "
                f"{', '.join(sorted(_OPTIONS[kind]))}"
            )
    if kind == LOG:
        where = f"{_PREFIX}{name}.interval"
        seconds = parse_duration(options.get("interval", _DEFAULT_INTERVAL), where).to_millis() / 1000
        if seconds <= 0:
            raise ValueError(f"{where} must be greater than 0, got {options['interval']!r}")
        return ReporterSettings(name, kind, seconds, options.get("scope.delimiter", "."))
    return ReporterSettings(
        name,
        kind,
        ports=_ports(options.get("port", _DEFAULT_PORT), f"{_PREFIX}{name}.port"),
        host=options.get("host", _LOOPBACK),
        naming=_naming(name, options),
    )


def _naming(name: str, options: Mapping[str, str]) -> Naming:
    style = options.get("names", PROMETHEUS)
    if style not in NAMINGS:
        raise ValueError(f"{_PREFIX}{name}.names must be one of {', '.join(NAMINGS)}, got {style!r}")
    additional = {}
    for pair in options.get("scope.variables.additional", "").split(","):
        label, colon, value = pair.partition(":")
        if pair.strip() and not (colon and label.strip()):
            raise ValueError(f"{_PREFIX}{name}.scope.variables.additional must be NAME:VALUE,…, got {pair!r}")
        if pair.strip():
            additional[label.strip()] = value.strip()
    filtered = "filterLabelValueCharacters"
    return Naming(
        style,
        frozenset(each.strip() for each in options.get("scope.variables.excludes", "").split(";") if each.strip()),
        additional,
        parse_boolean(options[filtered], f"{_PREFIX}{name}.{filtered}") if filtered in options else None,
    )


def _ports(text: str, key: str) -> range:
    """Returns the ports of `9249` or `9250-9260`; 0 for any free one."""
    first, dash, last = (part.strip() for part in text.partition("-"))
    try:
        ports = range(int(first), int(last if dash else first) + 1)
    except ValueError:
        ports = range(0)
    if not ports or ports[0] < 0 or ports[-1] > 65535:
        raise ValueError(f"{key} must be a port or a range like 9250-9260, got {text!r}")
    return ports


class Reporters:
    """The reporters of a running job. A reporter that fails never fails the job."""

    def __init__(self, settings: Iterable[ReporterSettings], job_name: str, details: Details) -> None:
        self._job_name = job_name
        self._running: list[_Reporter] = [
            _LogReporter(each, details) if each.kind == LOG else _PrometheusReporter(each, details) for each in settings
        ]

    @property
    def addresses(self) -> list[str]:
        """Returns the URLs at which Prometheus finds the job's metrics."""
        return [each.url for each in self._running if each.url is not None]

    def start(self) -> None:
        """Starts all reporters."""
        for reporter in self._running:
            try:
                reporter.start()
            except OSError as error:
                _log.warning("job '%s': metrics reporter '%s': %s", self._job_name, reporter.settings.name, error)

    def close(self) -> None:
        """Ends all reporters; those that report at intervals do so once more."""
        for reporter in self._running:
            reporter.close()


class _Reporter(ABC):
    """A reporter of a job."""

    settings: ReporterSettings
    url: str | None = None
    """Where it can be asked, if it can."""

    @abstractmethod
    def start(self) -> None:
        """Starts to report; an OSError if it cannot."""

    @abstractmethod
    def close(self) -> None:
        """Ends, perhaps with a last report."""


class _LogReporter(_Reporter):
    """Writes a line for each metric, at intervals."""

    def __init__(self, settings: ReporterSettings, details: Details) -> None:
        self.settings = settings
        self._details = details
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"metrics {settings.name}", daemon=True)

    def start(self) -> None:
        if _lines.level == logging.NOTSET:
            _lines.setLevel(logging.INFO)
        if not _lines.hasHandlers():
            _lines.addHandler(logging.StreamHandler())  # The program has not configured logging, but wants these lines.
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(self.settings.interval):
            self._report()
        self._report()

    def _report(self) -> None:
        try:
            for line in log_lines(self._details(), self.settings.delimiter):
                _lines.info("%s", line)
        except Exception:
            _log.exception("metrics reporter '%s' failed", self.settings.name)

    def close(self) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_LAST_SECONDS)


def log_lines(job: JobDetails, delimiter: str = ".") -> list[str]:
    """Returns the metrics of a job, one a line: their scope and name, and their value."""
    return [f"{delimiter.join((*sample.place, sample.name))}: {_shown(sample.value)}" for sample in samples(job)]


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_shown(each)}" for name, each in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


class _PrometheusReporter(_Reporter):
    """Answers Prometheus on a port."""

    def __init__(self, settings: ReporterSettings, details: Details) -> None:
        self.settings = settings
        self._details = details
        self._server: MetricsServer | None = None

    def start(self) -> None:
        from .prometheus_server import MetricsServer  # Only when needed: most jobs have none.

        self._server = MetricsServer(
            self.settings.host, self.settings.ports, self.settings.naming, lambda: [self._details()]
        )
        self.url = self._server.url

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
