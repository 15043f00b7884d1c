"""Settings: typed getters, units, and the YAML file."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from flintstream.common import (
    ConfigOption,
    ConfigOptions,
    Configuration,
    Duration,
    ExecutionConfig,
    ExecutionMode,
    Time,
    load_configuration,
)
from flintstream.common.config_values import parse_duration, parse_memory_size
from flintstream.common.deprecated_keys import FORMER_KEYS
from flintstream.common.known_keys import refusal


def test_getters_convert_what_setters_kept() -> None:
    config = Configuration().set_integer("i", 5).set_boolean("b", True).set_float("f", 1.5)
    config.set_string("s", "7").set_string("t", "TRUE").set_bytearray("y", bytearray(b"x"))
    assert config.get_string("i", "") == "5"
    assert config.get_string("b", "") == "true"
    assert config.get_integer("s", 0) == 7
    assert config.get_float("i", 0.5) == 5.0
    assert config.get_boolean("t", False) is True
    assert config.get_bytearray("y", None) == bytearray(b"x")
    assert config.get_integer("nope", 7) == 7
    assert config.get_integer("nope", None) is None
    assert config.to_dict()["f"] == "1.5"


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda c: c.get_integer("k", 1), "'yes' of 'k': expected an integer"),
        (lambda c: c.get_boolean("k", True), "'yes' of 'k': expected 'true' or 'false'"),
        (lambda c: c.get_float("k", 1.0), "expected a number"),
        (lambda c: c.get_duration("k", None), "expected a duration"),
        (lambda c: c.get_memory_size("k", None), "expected a memory size"),
        (lambda c: c.get_bytearray("k", None), "expected bytes"),
    ],
)
def test_values_that_cannot_be_converted(ask: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ask(Configuration().set_string("k", "yes"))  # type: ignore[operator]


def test_setters_refuse_other_types() -> None:
    with pytest.raises(TypeError, match="'n' must be of type str, not int"):
        Configuration().set_string("n", 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Configuration().set_integer("n", True)


def test_as_a_collection() -> None:
    config = Configuration.from_dict({"x": "1", "nested": {"a": {"b": 2}}})
    assert config.key_set() == {"x", "nested.a.b"}
    copy = Configuration(config)
    assert (copy == config, hash(copy) == hash(config)) == (True, True)
    assert (copy.remove_config("x"), copy.remove_config("x"), config.contains_key("x")) == (True, False, True)
    assert Configuration().add_all(config, "p.").key_set() == {"p.x", "p.nested.a.b"}
    target: dict[str, object] = {}
    config.add_all_to_dict(target)
    assert target == {"x": "1", "nested.a.b": 2}
    assert str(config) == "{x=1, nested.a.b=2}"
    assert pickle.loads(pickle.dumps(config)) == config


@pytest.mark.parametrize(
    ("text", "items"),
    [("a;b;c", ["a", "b", "c"]), ("[a, b]", ["a", "b"]), ("", []), (None, []), ("a", ["a"])],
)
def test_lists(text: str | None, items: list[str]) -> None:
    assert Configuration.parse_list_value(text) == items


def test_options() -> None:
    retries = ConfigOptions.key("r").int_type().default_value(3)
    config = Configuration()
    assert config.get(retries) == 3
    assert config.set(retries, "5").get(retries) == 5
    with pytest.raises(ValueError, match="'r'"):
        config.set(retries, "x")
    wait = ConfigOptions.key("w").duration_type().no_default_value()
    assert config.get(wait) is None
    assert config.set(wait, "2 s").get(wait) == Duration.of_seconds(2)
    cases: list[tuple[ConfigOption[Any], Any, Any]] = [
        (ConfigOptions.key("k").boolean_type().no_default_value(), "true", True),
        (ConfigOptions.key("k").double_type().no_default_value(), "1.5", 1.5),
        (ConfigOptions.key("k").string_type().no_default_value(), 5, "5"),
        (ConfigOptions.key("k").memory_type().no_default_value(), "1kb", 1024),
    ]
    for option, text, value in cases:
        assert config.set("k", text).get(option) == value


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1 s", 10**9), ("500 ms", 5 * 10**8), ("1min", 60 * 10**9), ("2 h", 7200 * 10**9),
        ("1 d", 86400 * 10**9), ("100", 10**8), (100, 10**8), ("5us", 5000),
        ("7 ns", 7), ("10 Seconds", 10**10), ("PT10S", 10**10),
        ("PT1H30M", 5400 * 10**9), ("P1DT0.5S", 86400 * 10**9 + 5 * 10**8), ("-PT1S", -(10**9)),
        (Time.seconds(1), 10**9), ("  3 m ", 180 * 10**9), ("PT-1.5S", -15 * 10**8),
    ],
)  # fmt: skip
def test_durations(text: object, nanos: int) -> None:
    assert parse_duration(text).to_nanos() == nanos


@pytest.mark.parametrize("text", ["", "s", "1 week", "1.5 s", "P", "PT", "-1 s", True, None, 1.5])
def test_no_durations(text: object) -> None:
    with pytest.raises(ValueError, match=r"'my\.key'"):
        parse_duration(text, "my.key")


@pytest.mark.parametrize(
    ("text", "size"),
    [("64mb", 64 << 20), ("1 gb", 1 << 30), ("512 k", 512 << 10), ("5", 5), (7, 7), ("1TB", 1 << 40)],
)
def test_memory_sizes(text: object, size: int) -> None:
    assert parse_memory_size(text) == size


@pytest.mark.parametrize("text", ["", "mb", "1 pb", "-1 kb", "1.5gb", -1, None])
def test_no_memory_sizes(text: object) -> None:
    with pytest.raises(ValueError, match=r"'my\.key'"):
        parse_memory_size(text, "my.key")


def test_file_with_nested_keys(tmp_path: Path) -> None:
    (tmp_path / "flint.yaml").write_text(
        "parallelism:\n  default: 4\npipeline.name: clicks\nexecution:\n  checkpointing: {interval: 10 s}\n"
        "a: yes\nb: true\nc: [x, y]\nd: '5'\ne:\nf: 1.5\n"
    )
    config = load_configuration(tmp_path / "flint.yaml")
    assert config.get_integer("parallelism.default", 1) == 4
    assert config.get_string("pipeline.name", None) == "clicks"
    assert config.get_duration("execution.checkpointing.interval", None) == Duration.of_seconds(10)
    assert [config.get(key) for key in "abcdef"] == ["yes", True, ["x", "y"], "5", None, 1.5]
    assert config.get_list("c") == ["x", "y"]


def test_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLINT_CONF_DIR", raising=False)
    assert len(load_configuration()) == 0
    monkeypatch.setenv("FLINT_CONF_DIR", str(tmp_path))
    assert len(load_configuration()) == 0
    (tmp_path / "config.yaml").write_text("a: 1\n")
    assert load_configuration().to_dict() == {"a": "1"}
    (tmp_path / "flint.yaml").write_text("# nothing\n")
    assert len(load_configuration()) == 0
    monkeypatch.setenv("FLINT_CONF_DIR", str(tmp_path / "nope"))
    with pytest.raises(ValueError, match="FLINT_CONF_DIR"):
        load_configuration()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: [1\nc: 2\n", "line 3"),
        ("a: 1\n- b\n", "line 2"),
        ("a:\n  b: 1\na.b: 2\n", "line 3: 'a.b' is set twice"),
        ("- a\n", "line 1: expected 'key: value'"),
        ("x: 1\n? [a]\n: 2\n", "line 2"),
        ("a: @x\n", "line 1"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "flint.yaml"
    file.write_text(text)
    with pytest.raises(ValueError) as caught:
        load_configuration(file)
    assert str(file) in str(caught.value)
    assert words in str(caught.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nope\.yaml"):
        load_configuration(tmp_path / "nope.yaml")


def test_execution_config_is_a_view() -> None:
    configuration = Configuration()
    config = ExecutionConfig(configuration)
    assert (config.get_parallelism(), config.get_max_parallelism()) == (-1, -1)
    config.set_parallelism(4).set_max_parallelism(64).set_auto_watermark_interval(5)
    assert configuration.get_integer("parallelism.default", 0) == 4
    configuration.set_string("pipeline.auto-watermark-interval", "1 s")
    assert config.get_auto_watermark_interval() == 1000
    assert config.set_parallelism(-1).get_parallelism() == -1
    for wrong in (0, -5, True, "2"):
        with pytest.raises(ValueError):
            config.set_parallelism(wrong)  # type: ignore[arg-type]
    for wrong in (0, 40000):
        with pytest.raises(ValueError):
            config.set_max_parallelism(wrong)
    with pytest.raises(ValueError, match="auto-watermark-interval"):
        config.set_auto_watermark_interval(-1)
    assert config.set_global_job_parameters({"a": 1, "b": True}).get_global_job_parameters() == {
        "a": "1",
        "b": "True",
    }


def test_execution_config_defaults() -> None:
    config = ExecutionConfig()
    assert config.get_auto_watermark_interval() == 200
    assert config.get_latency_tracking_interval() == 0
    assert config.get_task_cancellation_interval() == 30000
    assert config.get_task_cancellation_timeout() == 180000
    assert config.has_auto_generated_uids_enabled()
    assert not config.disable_auto_generated_uids().has_auto_generated_uids_enabled()
    assert config.is_closure_cleaner_enabled()
    assert not config.disable_closure_cleaner().is_closure_cleaner_enabled()
    assert not config.is_object_reuse_enabled()
    assert not config.is_use_snapshot_compression()
    assert config.set_use_snapshot_compression(True).is_use_snapshot_compression()
    assert config.disable_generic_types().has_generic_types_disabled()
    with pytest.raises(NotImplementedError):
        config.enable_force_kryo()


def test_job_parameters_may_be_nested_in_the_file(tmp_path):
    (tmp_path / "flint.yaml").write_text("pipeline:\n  global-job-parameters:\n    a: 1\n    b.c: x\n")
    assert ExecutionConfig(load_configuration(tmp_path)).get_global_job_parameters() == {"a": "1", "b.c": "x"}


def test_former_keys_are_read_where_the_present_one_is_not_set() -> None:
    config = Configuration().set_string("state.backend.fs.checkpointdir", "/oldest")
    assert config.get_string("execution.checkpointing.dir", None) == "/oldest"
    config.set_string("state.checkpoints.dir", "/old")
    assert config.get_string("execution.checkpointing.dir", None) == "/old"
    config.set_string("execution.checkpointing.dir", "/new")
    assert config.get_string("execution.checkpointing.dir", None) == "/new"
    assert config.get_string("state.checkpoints.dir", None) == "/old"
    assert config.contains_key("state.checkpoints.dir")


def test_a_value_that_cannot_be_read_is_blamed_on_the_key_that_has_it() -> None:
    config = Configuration().set_string("execution.buffer-timeout", "soon")
    with pytest.raises(ValueError, match="'soon' of 'execution.buffer-timeout'"):
        config.get_duration("execution.buffer-timeout.interval", None)


def test_every_former_key_is_known() -> None:
    for present, formers in FORMER_KEYS.items():
        assert [refusal(key) for key in (present, *formers)] == [None] * (1 + len(formers))


@pytest.mark.parametrize("text", ["[a, b]", "- a\n- b", "a;b"])
def test_lists_in_yaml(text: str) -> None:
    assert Configuration.parse_list_value(text) == ["a", "b"]
    assert Configuration().set_string("k", text).get_list("k") == ["a", "b"]


def test_execution_configs_are_equal_by_their_settings() -> None:
    one, two = ExecutionConfig(), ExecutionConfig()
    assert one == two
    assert hash(one) == hash(two)
    one.set_parallelism(12)
    assert one != two
    assert hash(one) != hash(two)
    two.set_parallelism(12)
    assert one == two
    one.set_execution_mode(ExecutionMode.BATCH)
    assert one != two
