from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pastforward.columns import plugins
from pastforward.errors import UserError
from pastforward.settings import load, parse_duration, show_duration


def test_defaults_are_those_of_the_documentation() -> None:
    settings = load(environment={}, file=None)
    assert settings.bootstrap_servers is None
    assert (settings.topic_prefix, settings.partitions, settings.routing) == ("pastforward.", 4, "dewey")
    assert settings.hot_window == 3600 * 1_000_000
    assert settings.sources["partitions"] == "default"


def test_the_environment_wins_over_the_file_and_a_flag_over_both(tmp_path: Path) -> None:
    file = tmp_path / "pastforward.toml"
    file.write_text('partitions = 8\nhot_window = "10m"\n[kafka]\n"sasl.mechanism" = "PLAIN"\n')
    environment = {"PASTFORWARD_PARTITIONS": "2", "PASTFORWARD_LAYOUT": "two", "PASTFORWARD_KAFKA_SASL_PASSWORD": "x"}
    settings = load({"partitions": 16, "layout": None}, environment=environment, file=file)
    assert (settings.partitions, settings.layout, settings.hot_window) == (16, "two", 600_000_000)
    assert settings.kafka == {"sasl.mechanism": "PLAIN", "sasl.password": "x"}
    assert settings.sources["partitions"] == "flag"
    assert settings.sources["layout"] == "environment"
    assert settings.sources["hot_window"] == str(file)
    assert load(environment=environment, file=file).partitions == 2


@pytest.mark.parametrize(
    ("environment", "text", "says"),
    [
        ({"PASTFORWARD_PARTITION": "4"}, "", "did you mean PASTFORWARD_PARTITIONS?"),
        ({"PASTFORWARD_PARTITIONS": "none"}, "", "write a whole number from 1 to 4096"),
        ({"PASTFORWARD_HOT_WINDOW": "1 hour"}, "", "write a duration such as"),
        ({"PASTFORWARD_DELIVERY": "maybe"}, "", "exactly-once, at-least-once"),
        ({}, "hotwindow = 3", "did you mean hot_window?"),
        ({}, "partitions = [1]", "must be a text or a number"),
        ({}, "kafka = 3", "write [kafka]"),
        ({}, "partitions = ", "is not valid TOML"),
    ],
)
def test_a_wrong_setting_says_what_to_write(environment: dict[str, str], text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "pastforward.toml"
    file.write_text(text)
    with pytest.raises(UserError) as error:
        load(environment=environment, file=file)
    assert says in str(error.value)


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read"):
        load(environment={}, file=tmp_path / "none.toml")


@given(st.integers(0, 10**15))
def test_durations_survive_being_shown(micros: int) -> None:
    assert parse_duration(show_duration(micros)) == micros


def test_an_algorithm_that_is_not_installed_says_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load({"algorithm": "static"}, environment={}).algorithm == "static"
    with pytest.raises(UserError, match="no algorithm 'statc'; there are auto, linear, counting"):
        load({"algorithm": "statc"}, environment={})
    monkeypatch.setattr(plugins, "find_spec", lambda _: None)
    with pytest.raises(
        UserError, match=r"'static' is not installed; it comes with: pip install 'pastforward\[papers\]'"
    ):
        load({"algorithm": "static"}, environment={})
