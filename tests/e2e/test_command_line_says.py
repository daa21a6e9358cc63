"""What the command line says when something is wrong on the caller's side: which word, which setting, what to do."""

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from rich.console import Console
from typer.testing import CliRunner

from kedge_bandit.entrypoints.cli import app
from kedge_bandit.entrypoints.printing import InertConsole
from tests.e2e.test_command_line import fail, ok, onboarded, read, run
from tests.fixtures.stack import Stack, wait_for
from tests.trust.authorities import Authority


def said(*arguments: str, code: int = 1, **environment: str) -> str:
    """Run a command without a service, and give its error in one line."""
    wide = {"COLUMNS": "3000", "KEDGE_KEY": "kdg_none", **environment}
    done = CliRunner().invoke(app, list(arguments), env=wide)
    assert (done.exit_code, done.stdout) == (code, ""), done.output
    return re.sub(r"\s+", " ", done.stderr)


@contextmanager
def closing_door() -> Iterator[str]:
    """Take one connection after the other and hang up, as a server under TLS does with what is no handshake."""
    with socket.create_server(("127.0.0.1", 0)) as door:

        def hang_up() -> None:
            while True:
                try:
                    door.accept()[0].close()
                except OSError:
                    return

        thread = Thread(target=hang_up)
        thread.start()
        try:
            yield f"127.0.0.1:{door.getsockname()[1]}"
        finally:
            door.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({"KEDGE_PORT": "abc"}, "error: setting KEDGE_PORT: 'abc' is no port, write a number from 1 to 65535 "),
        ({"KEDGE_PORT": "65536"}, "error: setting KEDGE_PORT: '65536' is no port, write a number from 1 to 65535 "),
        (
            {"KEDGE_CA": "/nosuch.pem"},
            "error: setting KEDGE_CA: /nosuch.pem cannot be read (No such file or directory) ",
        ),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(environment: dict[str, str], sentence: str) -> None:
    assert said("status", "acme", code=1, **environment) == sentence


def test_texts_that_look_like_markup_or_pictures_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no server answers at 127.0.0.1:1: start it" in said("status", "acme", KEDGE_ADDRESS="127.0.0.1:1")
    gate = said("holdout", "status", "acme", "support", KEDGE_GATE_ADDRESS="127.0.0.1:1")
    assert "no gate answers at 127.0.0.1:1: start `kedge serve`" in gate
    console: Console = InertConsole(width=80)
    console.print("127.0.0.1:abc: of :smiley:")
    assert capsys.readouterr().out == "127.0.0.1:abc: of :smiley:\n"


def test_a_door_that_takes_connections_and_no_calls_is_said_to_be_perhaps_under_tls(
    stack: Stack, tmp_path: Path
) -> None:
    with closing_door() as address:
        assert f"no call goes through to {address}: set KEDGE_CA if the server is under TLS" in said(
            "status", "acme", KEDGE_ADDRESS=address
        )
    ca = tmp_path / "ca.pem"
    ca.write_bytes(Authority("ours").certificate)
    plain = stack.environment["KEDGE_ADDRESS"]
    assert "unset KEDGE_CA if it is not under TLS" in said("status", "acme", KEDGE_ADDRESS=plain, KEDGE_CA=str(ca))


def test_can_says_which_word_is_wrong_and_what_there_is() -> None:
    assert "nobody is no role: choose one of core_app, viewer, " in said("can", "nobody@acme", "Freeze", "acme", code=2)
    wrong = said("can", "viewer@acme", "Freese", "acme", code=2)
    assert "Freese is no permission, RPC or route: choose one of DECIDE, " in wrong
    assert ", Freeze, " in wrong


def test_help_shows_no_type_at_options_that_take_no_value() -> None:
    for command in ([], ["tenant"], ["freeze"], ["tenant", "erase"]):
        done = CliRunner().invoke(app, [*command, "--help"])
        assert done.exit_code == 0
        assert "--help" in done.stdout
        assert "<bool>" not in done.stdout


def test_a_freeze_of_everything_is_named_as_what_holds_a_policy(stack: Stack) -> None:
    onboarded(stack, "held")
    ok(stack, "freeze", "--everything", "--because", "incident")
    try:
        refused = fail(stack, "unfreeze", "held", "support", "--because", "go")
        assert "is APPLY and not frozen itself, global is: `kedge unfreeze --everything` ends that" in refused
        ok(stack, "freeze", "held", "--because", "more")
        still = ok(stack, "unfreeze", "held", "--because", "less")
        assert "effectively FROZEN, by global: `kedge unfreeze --everything` ends that" in still
    finally:
        ok(stack, "unfreeze", "--everything", "--because", "over")
    assert read(stack, "mode", "held", "support")["effective_mode"] == "APPLY"


def test_decide_says_that_it_reads_and_which_roles_may(stack: Stack) -> None:
    onboarded(stack, "reading")
    key = read(stack, "key", "create", "reading", "--principal", "app", "--role", "core_app")["key"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(stack.environment, "KEDGE_KEY", key)
        wait_for(lambda: run(stack, "decide", "reading", "support").exit_code == 0, "the key to be known")
        refused = fail(stack, "decide", "reading", "support", "--set", "task=math")
    assert "--set reads the policy first" in refused
    assert "use a key of role ADMIN or OPERATOR, or leave --set out" in refused


def test_a_file_that_holds_no_mode_is_named_where_it_freezes(stack: Stack) -> None:
    onboarded(stack, "overridden")
    file = stack.data_dir / "mode_override"
    file.write_text("frozn", encoding="ascii")
    try:
        assert "holds 'FROZN', which is no mode" in re.sub(r"\s+", " ", ok(stack, "status", "overridden", "support"))
        shown = re.sub(r"\s+", " ", ok(stack, "mode", "overridden", "support"))
        assert "effectively FROZEN, by file: the file mode_override in the data folder says so" in shown
    finally:
        file.unlink()
    wait_for(lambda: read(stack, "mode", "overridden", "support")["effective_mode"] == "APPLY", "the file to be gone")


def test_a_mistyped_tenant_is_said_to_be_none_and_a_key_says_whose_it_is(stack: Stack) -> None:
    onboarded(stack, "typed")
    assert "no such tenant, or this credential is not bound to it" in fail(stack, "status", "typd", "support")
    person = ("--person", "alice", "--issuer", "https://login.example")
    ok(stack, "key", "create", "typed", "--principal", "alice", "--role", "viewer", *person)
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(stack.environment, "COLUMNS", "300")
        assert "alice of https://login.example" in ok(stack, "key", "list", "typed")
