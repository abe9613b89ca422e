"""Nothing that a person or a log gets to see holds a secret, and nobody else reads what a worker keeps."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pastforward.cli.doctor import show_settings
from pastforward.errors import UserError
from pastforward.redaction import without_credentials
from pastforward.settings import load

SECRET = [
    "sasl.password",
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.key.pem",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.assertion.private.key.pem",
    "sasl.oauthbearer.assertion.private.key.passphrase",
]
OPEN = [
    "sasl.username",
    "sasl.mechanism",
    "ssl.ca.location",
    "ssl.key.location",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.token.endpoint.url",
]


@pytest.mark.parametrize("name", SECRET + OPEN)
def test_doctor_shows_what_is_no_secret(name: str) -> None:
    environment = {"PASTFORWARD_KAFKA_" + name.upper().replace(".", "_"): "hush-hush"}
    shown = {row[0]: row[1] for row in show_settings(load(environment=environment))}
    assert (shown[f"KAFKA {name}"] == "hush-hush") == (name in OPEN)


@pytest.mark.parametrize("name", ["SCHEMA_REGISTRY_URL", "MAVEN_REPOSITORY", "HISTORY"])
@pytest.mark.parametrize("credentials", ["anna:hush", "hush", "anna:hu@sh", "a%40b:hush"])
def test_credentials_inside_a_url_are_not_shown(name: str, credentials: str) -> None:
    url = f"https://{credentials}@registry:8081/path@here"
    shown = {row[0]: row[1] for row in show_settings(load(environment={f"PASTFORWARD_{name}": url}))}
    assert shown[name] == "https://…@registry:8081/path@here"
    assert str(UserError(f"cannot reach {url}: no route")) == f"cannot reach {shown[name]}: no route"


@pytest.mark.parametrize("text", ["mail anna@example.org", "http://host/anna@example.org", "a: b@c", "https://host"])
def test_what_holds_no_credentials_is_left_as_it_is(text: str) -> None:
    assert without_credentials(text) == text


def test_the_data_directory_is_for_its_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        settings = load({"data_dir": tmp_path / "new" / "data"}, environment={})
        made = settings.make_folder("worker")
        assert [stat.S_IMODE(folder.stat().st_mode) for folder in (settings.data_dir, made)] == [0o700, 0o700]
        named = tmp_path / "named"
        named.mkdir(mode=0o755)
        load({"data_dir": named}, environment={}).make_folder("broker")
        assert stat.S_IMODE(named.stat().st_mode) == 0o755
        assert stat.S_IMODE((named / "broker").stat().st_mode) == 0o700
    finally:
        os.umask(before)
