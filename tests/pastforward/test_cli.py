"""The command line, as a process: output, exit codes, and what is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from pastforward import Client, settings
from pastforward.broker import Broker
from pastforward.cli import HOMES, root
from pastforward.cli.options import as_flags
from pastforward.running import is_ours
from pastforward.schemas import SchemaError, dead_letter, encode
from pastforward.topics import connect, ensure
from tests.conftest import ROOT, StartWorker
from tests.forks import Forked

Command = Callable[..., subprocess.CompletedProcess[str]]


def all_commands(group: click.Group, *names: str) -> list[tuple[tuple[str, ...], click.Command]]:
    found: list[tuple[tuple[str, ...], click.Command]] = []
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command is not None
        if isinstance(command, click.Group):
            found += all_commands(command, *names, name)
        found.append(((*names, name), command))
    return found


def test_all_names_of_the_documentation_exist() -> None:
    names = {" ".join(path) for path, _ in all_commands(root)}
    assert names >= {
        *("up", "broker", "worker", "topics", "subscribe", "unsubscribe", "publish", "watch", "explain", "bench"),
        *("demo", "doctor", "history ingest", "history compact", "history statistics", "history backfill"),
        *("history query", "routing propose", "routing apply", "routing abort", "subscriptions list"),
        *(
            "subscriptions show",
            "dead-letters list",
            "dead-letters show",
            "dead-letters resend",
            "status",
            "down",
            "try",
        ),
    }


def test_the_list_says_of_each_command_what_it_says_of_itself() -> None:
    lines = {name: line for name, (_, line) in HOMES.items()}
    assert lines == {path[0]: each.get_short_help_str(200) for path, each in all_commands(root) if len(path) == 1}


def test_help_imports_no_command() -> None:
    """Together they take a second; numba alone takes half of that, and no command of a user of the topics needs it."""
    code = "import sys; from pastforward.cli import root; {}; print(*sorted({{'numba', 'sqlglot', 'numpy', 'rich'}} & set(sys.modules)))"
    lists = "root.get_help(__import__('click').Context(root))"
    for action, expected in ((lists, ""), ("import pastforward.cli.records, pastforward.cli.status", "numpy rich")):
        done = subprocess.run([sys.executable, "-c", code.format(action)], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected


@pytest.mark.parametrize(("path", "command"), [pytest.param(p, c, id=" ".join(p)) for p, c in all_commands(root)])
def test_every_command_has_help_with_an_example(path: tuple[str, ...], command: click.Command) -> None:
    text = command.get_help(click.Context(command, info_name=path[-1]))
    assert isinstance(command, click.Group) or f"Example: pastforward {' '.join(path)}" in text


@pytest.mark.parametrize(
    ("arguments", "environment", "says"),
    [
        (["topics"], {"PASTFORWARD_PARTITION": "4"}, "did you mean PASTFORWARD_PARTITIONS?"),
        (["publish", "x=1"], {"PASTFORWARD_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, "cannot reach Kafka at 127.0.0.1:1"),
        (
            ["publish"],
            {"PASTFORWARD_BOOTSTRAP_SERVERS": "127.0.0.1:1"},
            "nothing to publish: write attributes as name=value",
        ),
        (["publish", "--file", "file"], {"PASTFORWARD_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, "cannot reach Kafka"),
        (["publish", "x=1", "--expires", "-1m"], {}, "which is past: nobody would be notified; write +10m"),
        (["subscribe", "--where", "kind = accident"], {}, "a text stands in single quotes: 'accident'"),
        (["subscriptions", "list"], {"PASTFORWARD_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, "cannot reach Kafka"),
        (["dead-letters", "list"], {"PASTFORWARD_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, "cannot reach Kafka"),
        (
            ["dead-letters", "resend"],
            {"PASTFORWARD_BOOTSTRAP_SERVERS": "127.0.0.1:1"},
            "name the letters to send again",
        ),
        (["status"], {"PASTFORWARD_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, "cannot reach Kafka"),
        (["down"], {}, "nothing runs in"),
        (["topics"], {"PASTFORWARD_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, "cannot reach Kafka"),
        (["publish", "x=1"], {}, "start `pastforward up`"),
        (["worker"], {}, "start `pastforward up`"),
        (["subscribe", "--where", "x >"], {}, "the condition cannot be taken"),
        (["publish", "nothing"], {"PASTFORWARD_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, "write name=value"),
        (["publish", "a=1", "a=2"], {"PASTFORWARD_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, "a is there twice"),
        (["watch"], {"PASTFORWARD_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, "cannot reach Kafka"),
        (["worker"], {"PASTFORWARD_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, "cannot reach Kafka"),
        (["worker"], {"LOGLEVEL": "loud", "PASTFORWARD_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, "LOGLEVEL is 'LOUD'"),
        (["worker", "--session-timeout", "1us"], {}, "write a duration from 1s to 1m"),
        (["worker", "--session-timeout", "2h"], {}, "write a duration from 1s to 1m"),
        (["up", "--data-dir", "file"], {}, "Not a directory"),
        (
            ["publish", "a=1", "--schema-registry-url", "no"],
            {"PASTFORWARD_BOOTSTRAP_SERVERS": "127.0.0.1:1"},
            "SCHEMA_REGISTRY_URL",
        ),
        (["history", "ingest"], {"PASTFORWARD_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, "cannot reach Kafka"),
        (["history", "compact"], {"PASTFORWARD_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, "cannot reach Kafka"),
        (["history", "statistics"], {"PASTFORWARD_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, "cannot reach Kafka"),
        (["history", "backfill"], {"PASTFORWARD_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, "cannot reach Kafka"),
        (["routing", "apply"], {"PASTFORWARD_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, "cannot reach Kafka"),
        (["demo"], {"PASTFORWARD_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, "cannot reach Kafka"),
        (["explain", "a", "b"], {"PASTFORWARD_BOOTSTRAP_SERVERS": "127.0.0.1:1"}, "cannot reach Kafka"),
    ],
)
def test_an_error_is_one_line_and_code_1(
    command: Command, tmp_path: Path, arguments: list[str], environment: dict[str, str], says: str
) -> None:
    (tmp_path / "file").touch()
    done = command(
        *arguments, environment={**environment, "PASTFORWARD_KAFKA_DELIVERY_TIMEOUT_MS": "2000"}, cwd=tmp_path
    )
    assert done.returncode == 1, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert "%3|" not in done.stderr  # librdkafka's own lines
    assert len([line for line in done.stderr.splitlines() if line.startswith("error: ")]) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        "watch --count 0",
        "watch --count -1",
        "watch --timeout -1",
        "watch --since soon",
        "broker --port 0",
        "broker --port 99999",
        "up --port -1",
        "demo --seconds 0",
        "demo --drivers 0",
        "history compact --vacuum -1",
        "publish --id  a=1",
        "subscribe --subscriber ",
        "subscribe --id ",
    ],
)
def test_a_value_that_cannot_be_is_refused(arguments: str, command: Command, tmp_path: Path) -> None:
    done = command(*arguments.split(" "), cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "Invalid value for" in done.stderr
    assert "Traceback" not in done.stderr


def test_another_process_gets_the_same_settings() -> None:
    chosen = settings.load({"hot_window": "90s", "session_timeout": "7s", "memory_budget": "1GB"}, environment={})
    flags = as_flags(chosen)
    given = dict(zip(flags[::2], flags[1::2], strict=True))
    assert settings.load({name[2:].replace("-", "_"): text for name, text in given.items()}, environment={}) == chosen


def test_debug_shows_the_traceback(command: Command, tmp_path: Path) -> None:
    done = command("worker", "--debug", cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" in done.stderr


@pytest.fixture(scope="module")
def flags(broker: Broker, start_shared: StartWorker) -> list[str]:
    worker = start_shared(topic_prefix="cli.", partitions=1)
    worker.wait_ready()
    return ["--bootstrap-servers", broker.bootstrap, "--topic-prefix", "cli."]


@pytest.mark.broker
def test_subscribe_publish_watch_unsubscribe(command: Command, flags: list[str], tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        done = command(*arguments, *flags, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    lines = [json.dumps({"topic": "1.4.2", "attributes": {"kind": "accident", "severity": n}}) for n in range(5)]
    (tmp_path / "many.jsonl").write_text("\n".join(lines))
    assert json.loads(run("publish", "--file", "many.jsonl", "--json")) == {"published": 5}
    where = "kind = 'accident' AND severity >= 3"
    made = json.loads(
        run("subscribe", "--topic", "1.4", "--from", "-10m", "--where", where, "--subscriber", "anna", "--json")
    )
    watched = run("watch", "--since", "-10m", "--count", "2", "--recipient", "anna", "--json").splitlines()
    assert {json.loads(line)["phase"] for line in watched} == {"past"}
    assert {json.loads(line)["subscription_id"] for line in watched} == {made["subscription_id"]}
    carried = [json.loads(line)["content"]["attributes"] for line in watched]
    assert sorted(each["severity"] for each in carried) == [3, 4]
    alone = ["--topic", "1.4", "--from", "-10m", "--subscriber", "ben", "--deliver", "ids", "--json"]
    run("subscribe", *alone)
    (told,) = run("watch", "--since", "-10m", "--count", "1", "--recipient", "ben", "--json").splitlines()
    assert "content" not in json.loads(told)
    run("publish", "--topic", "1.4", "kind=accident", "severity=9", "--id", "late")
    shown = run("watch", "--since", "-10m", "--count", "3", "--recipient", "anna")
    assert "live" in shown
    assert "late" in shown
    assert "kind 'accident' severity 9" in " ".join(shown.split())
    assert run("unsubscribe", made["subscription_id"]) == f"withdrawn {made['subscription_id']}\n"


@pytest.mark.broker
def test_topics_and_doctor(command: Command, flags: list[str], tmp_path: Path) -> None:
    rows = json.loads(command("topics", "--json", *flags, cwd=tmp_path).stdout)
    assert [row["partitions"] for row in rows if row["topic"] == "cli.rendezvous"] == [1]
    done = command("doctor", "--json", *flags, "--jars-dir", str(ROOT / ".jars"), cwd=tmp_path)
    report = json.loads(done.stdout)
    assert done.returncode == 0, report["checks"]
    assert {check["name"] for check in report["checks"]} >= {"java", "broker", "topics", "disk"}
    sources = {row["name"]: row["source"] for row in report["settings"]}
    assert (sources["TOPIC_PREFIX"], sources["PARTITIONS"]) == ("flag", "default")


@pytest.mark.broker
def test_doctor_hides_secrets_and_names_what_is_missing(command: Command, tmp_path: Path) -> None:
    environment = {"PASTFORWARD_KAFKA_SASL_PASSWORD": "hush", "PASTFORWARD_JARS_DIR": "none"}
    done = command("doctor", environment=environment, cwd=tmp_path)
    assert done.returncode == 1
    assert "hush" not in done.stdout
    assert "pastforward setup" in done.stdout


@pytest.mark.broker
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_up_says_where_and_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    environment = {**os.environ, "PASTFORWARD_JARS_DIR": str(ROOT / ".jars")}
    up = subprocess.Popen(
        [sys.executable, "-m", "pastforward", "up", "--partitions", "1", "--web-port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert up.stdout is not None
    assert up.stdout.readline().startswith("bootstrap.servers=127.0.0.1:")
    ours = [pid for pid in descendants(up.pid) if pid != up.pid]
    assert len(ours) >= 2
    up.send_signal(number)
    assert up.wait(60) == 0
    assert not [pid for pid in ours if Path(f"/proc/{pid}").exists()]


def up_in(directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pastforward", "up", "--partitions", "1", "--web-port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=directory,
        env={**os.environ, "PASTFORWARD_JARS_DIR": str(ROOT / ".jars")},
    )


def first_line(up: subprocess.Popen[str]) -> str:
    assert up.stdout is not None
    return up.stdout.readline()


@pytest.mark.broker
def test_up_takes_over_what_one_that_was_killed_has_left_and_down_ends_it(command: Command, tmp_path: Path) -> None:
    first = up_in(tmp_path)
    bootstrap = first_line(first)
    ours = [pid for pid in descendants(first.pid) if pid != first.pid]
    assert len(ours) >= 2
    first.kill()
    first.wait()
    second = up_in(tmp_path)
    try:
        assert first_line(second) == bootstrap
        assert all(Path(f"/proc/{pid}").exists() for pid in ours)  # the same broker, the same worker
        third = up_in(tmp_path)
        assert third.wait(60) == 1
        assert third.stderr is not None
        assert "`pastforward up` runs already" in third.stderr.read()
        done = command("down", cwd=tmp_path)
        assert (done.returncode, done.stdout.startswith("ended `pastforward up`")) == (0, True), done.stderr
        assert second.wait(60) == 0
        assert second.stderr is not None
        said = second.stderr.read()
        assert "an embedded broker runs already" in said
        assert "a worker runs already" in said
        assert not [pid for pid in ours if is_ours(pid)]
        assert command("down", cwd=tmp_path).returncode == 1
    finally:
        second.kill()


def descendants(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += descendants(int(child))
    return found


def test_routing_propose_compares_all_schemes(command: Command, tmp_path: Path) -> None:
    subscriptions = [{"subscription_id": f"s{n}", "subscriber_id": "a", "where": f"x = {n % 7}"} for n in range(50)]
    publications = [{"topic": str(n % 5), "attributes": {"x": n % 7}} for n in range(50)]
    for name, lines in (("s", subscriptions), ("p", publications)):
        (tmp_path / name).write_text("\n".join(map(json.dumps, lines)))
    done = command(
        "routing",
        "propose",
        "--subscriptions",
        "s",
        "--publications",
        "p",
        "--plot",
        "costs.svg",
        "--json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "dewey" in done.stdout
    assert (tmp_path / "costs.svg").stat().st_size > 1000
    done = command("routing", "propose", "--subscriptions", "s", "--publications", "s", cwd=tmp_path)
    assert done.returncode == 1
    assert "line 1" in done.stderr


@pytest.mark.broker
def test_the_demo_shows_both_phases(tmp_path: Path) -> None:
    flags = ["--seconds", "240", "--drivers", "60", "--partitions", "2", "--jars-dir", str(ROOT / ".jars")]
    flags += ["--web-port", "0"]  # the usual one may be taken by another test between a look at it and its use
    demo = subprocess.Popen(
        [sys.executable, "-m", "pastforward", "demo", *flags], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert demo.stdout is not None
    for line in demo.stdout:
        counts = re.search(r"notifications past (\d+) live (\d+)", line)
        if counts and all(map(int, counts.groups())):
            break
    else:
        pytest.fail("the demo has ended without notifications of both phases")
    demo.send_signal(signal.SIGINT)
    demo.stdout.read()
    assert demo.wait(60) == 0


@pytest.mark.parametrize("arguments", [["subscribe"], ["publish", "a=1"]])
def test_a_key_press_ends_a_command_that_waits_for_a_broker(arguments: list[str], tmp_path: Path) -> None:
    """Within a bound that is shorter than the thirty seconds after which the record would be given up."""
    files = (tmp_path / "out", tmp_path / "errors")
    process = Forked([*arguments, "--bootstrap-servers", "127.0.0.1:1"], files)
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130, files[1].read_text()
    assert "Traceback" not in files[1].read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["subscirbe"], "No such command 'subscirbe'. Did you mean `pastforward subscribe`?"),
        (["history", "injest"], "Did you mean `pastforward history ingest`?"),
        (["dead-letters", "lst"], "Did you mean `pastforward dead-letters list`?"),
        (["xyzzy"], "No such command 'xyzzy'. `pastforward --help` lists all."),
    ],
)
def test_an_unknown_command_gets_the_nearest_one(
    command: Command, tmp_path: Path, arguments: list[str], says: str
) -> None:
    done = command(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr


def test_values_that_an_option_allows_stand_in_its_help(command: Command, tmp_path: Path) -> None:
    text = command("worker", "--help", cwd=tmp_path).stdout
    assert "[dual|two]" in text
    assert "[exactly-once|at-least-once]" in text
    assert "[dewey|ferry|pan" in text


@pytest.mark.broker
def test_what_is_missing_is_one_sentence(command: Command, flags: list[str], tmp_path: Path) -> None:
    for arguments in (["watch"], ["subscribe"], ["publish", "x=1"], ["subscriptions", "list"], ["status"]):
        done = command(*arguments, *flags[:2], "--topic-prefix", "nobodys.", cwd=tmp_path)
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert line.startswith("error: topic nobodys.subscriptions is not there, at 127.0.0.1:")
        assert "'cli.'" in line  # the prefixes that there are


@pytest.mark.broker
def test_subscriptions_are_listed_and_shown(command: Command, flags: list[str], tmp_path: Path) -> None:
    def run(*arguments: str, code: int = 0) -> str:
        done = command(*arguments, *flags, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    run("subscribe", "--id", "lists-1", "--subscriber", "lister", "--topic", "9.1", "--where", "x > 1", "--to", "+1h")
    said = run("subscribe", "--id", "lists-2", "--subscriber", "lister")
    assert said == "subscription lists-2 at the root topic, for subscriber 'lister'\n"
    run("subscribe", "--id", "lists-3", "--subscriber", "lister", "--from", "-2h", "--to", "-1h")
    run("subscribe", "--id", "lists-4", "--subscriber", "lister")
    run("unsubscribe", "lists-4")
    rows = [json.loads(line) for line in run("subscriptions", "list", "--subscriber", "lister", "--json").splitlines()]
    assert [(row["subscription_id"], row["state"]) for row in rows] == [
        ("lists-1", "live"),
        ("lists-2", "live"),
        ("lists-3", "ended"),
    ]
    table = run("subscriptions", "list", "--subscriber", "lister", "--state", "live")
    assert "x > 1" in table
    assert "2 subscriptions" in table
    shown = json.loads(run("subscriptions", "show", "lists-1", "--json"))
    assert (shown["topic"], shown["where"], shown["subscriber_id"]) == ("9.1", "x > 1", "lister")
    assert "there is no subscription 'lists-4'" in run("subscriptions", "show", "lists-4", code=1)
    assert "there is no subscription 'lists-4'" in run("unsubscribe", "lists-4", code=1)


@pytest.mark.broker
def test_dead_letters_are_listed_shown_and_sent_again(command: Command, flags: list[str], tmp_path: Path) -> None:
    def run(*arguments: str, code: int = 0) -> str:
        done = command(*arguments, *flags, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        return done.stdout

    with Client(flags[1], settings=settings.load({"topic_prefix": "cli."}, environment={})) as client:
        client._send("cli.subscriptions", [("letter-bad", b'{"subscriber_id": "a", "where": "x >"}')])
        # one that was refused by workers of an earlier version, and would be taken now
        letter = dead_letter(
            "cli.publications", 0, 0, 1, SchemaError("bad_value", "once"), b"letter-good", b'{"topic": "1"}'
        )
        client._send("cli.dead-letters", [("letter-good", encode(letter))])
        refusal = next(client.refusals(timeout=60))
        assert refusal.name == "letter-bad"
    rows = {
        row["id"]: row for row in map(json.loads, run("dead-letters", "list", "--since", "-1h", "--json").splitlines())
    }
    assert (rows["letter-bad"]["kind"], rows["letter-bad"]["of"]) == ("bad_condition", "subscriptions")
    assert rows["letter-bad"]["letter"] == refusal.place
    assert "2 dead letters" in run("dead-letters", "list")
    shown = json.loads(run("dead-letters", "show", rows["letter-bad"]["letter"], "--json"))
    assert shown["value"] == '{"subscriber_id": "a", "where": "x >"}'
    assert shown["sent again it would be"].startswith("refused: at character 4")
    places = [rows["letter-bad"]["letter"], rows["letter-good"]["letter"]]
    said = run("dead-letters", "resend", *places, "--dry-run", "--json", code=1)
    assert [each["outcome"][:16] for each in json.loads(said)] == ["would be refused", "would be sent"]
    assert run("dead-letters", "resend", "--all", "--kind", "bad_value") == f"{places[1]} letter-good: sent\n"
    with Client(flags[1], settings=settings.load({"topic_prefix": "cli."}, environment={})) as client:
        found = client.publication("letter-good")
        assert found is not None
        assert found.topic == "1"
    done = command("dead-letters", "show", "7-7", *flags, cwd=tmp_path)
    assert (done.returncode, "there is no dead letter '7-7'" in done.stderr) == (1, True)


@pytest.mark.broker
def test_a_condition_is_tried(command: Command, flags: list[str], tmp_path: Path) -> None:
    for number, severity in enumerate((4, 3, 2, 1)):
        place = ["--topic", "77.1", "--id", f"tried-{number}"]
        assert command("publish", *place, "kind=ice", f"severity={severity}", *flags, cwd=tmp_path).returncode == 0
    words = ["try", "kind = 'ice' AND severity >= 3", "--topic", "77", *flags]
    found = json.loads(command(*words, "--json", cwd=tmp_path).stdout)
    assert (found["seen"], found["matched"]) == (4, 2)
    assert {each["publication_id"] for each in found["examples"]} == {"tried-0", "tried-1"}
    (miss,) = found["misses"]
    assert (miss["predicate"], miss["count"], miss["distance"], miss["nearest"]) == ("severity >= 3", 2, 1, "tried-2")
    shown = command(*words, cwd=tmp_path).stdout
    assert "2 of 4 publications there match (50.0%)" in shown
    assert "severity >= 3: 2 times; nearest 2, by 1 (tried-2)" in shown
    done = command("try", "kind = ice", *flags, cwd=tmp_path)
    assert (done.returncode, "a text stands in single quotes" in done.stderr) == (1, True)


@pytest.mark.broker
def test_status_says_what_runs_and_how_far_it_is(command: Command, flags: list[str], tmp_path: Path) -> None:
    done = command("status", "--json", *flags, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["bootstrap"], found["prefix"], found["routing_version"]) == (flags[1], "cli.", 1)
    assert len(found["workers"]) == 1
    assert set(found["lag"]) == {"subscriptions", "publications", "rendezvous"}
    assert "still to read: " in command("status", *flags, cwd=tmp_path).stdout
    ensure(chosen := settings.load({"topic_prefix": "idle."}, environment={}), connect(chosen, flags[1]))
    done = command("status", *flags[:2], "--topic-prefix", "idle.", cwd=tmp_path)
    assert (done.returncode, "no worker has ever run here" in done.stdout) == (3, True)
