"""``oddarms serve`` as people type it."""

from __future__ import annotations

import json
import logging
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from helpers import Run
from oddarms import create_study
from oddarms.server import Binding, Role, Tokens
from servers import ServerProcess, admin_token


@pytest.fixture
def file(tmp_path: Path) -> str:
    create_study("crowd", ["a", "b", "c"], storage=tmp_path / "studies.db")
    return str(tmp_path / "studies.db")


def tokens_of(file: str) -> Tokens:
    return Tokens.opened(file)


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    """A server that is started here writes to streams that are closed after the test."""
    logs = [logging.getLogger(name) for name in ("oddarms", "uvicorn")]
    before = [(log.level, log.handlers, log.propagate) for log in logs]
    yield
    for log, (level, handlers, propagate) in zip(logs, before, strict=True):
        log.setLevel(level)
        log.handlers, log.propagate = handlers, propagate


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Says that it has started, and ends."""

    def run(_app: object, binding: Binding, say: object, **_: object) -> None:
        say(binding.url(binding.port))  # type: ignore[operator]

    monkeypatch.setattr("oddarms.server.run", run)


@pytest.mark.usefixtures("started")
class TestStart:
    def test_the_first_one_prints_a_link_once(self, run_command: Run, file: str) -> None:
        first = run_command("serve", "--storage", file)
        assert first.code == 0
        token = re.search(r"http://127.0.0.1:8321/login#(\S+)", first.out)
        assert token is not None
        found = tokens_of(file).verified(token[1])
        assert found is not None
        assert found.role is Role.ADMIN
        second = run_command("serve", "--storage", file, "--root-path", "x/")
        assert "#" not in second.out
        assert second.out.endswith("at http://127.0.0.1:8321/x/\n")

    def test_a_file_keeps_it(self, run_command: Run, file: str, tmp_path: Path) -> None:
        kept = tmp_path / "token"
        first = run_command("serve", "--storage", file, "--token-file", kept)
        text = kept.read_text().strip()
        assert text not in first.out + first.err
        assert tokens_of(file).verified(text) is not None
        assert "chmod" not in first.err
        kept.chmod(0o640)
        again = run_command("serve", "--storage", file, "--token-file", kept)
        assert "chmod 600" in again.err
        assert (kept.read_text().strip(), len(tokens_of(file).list())) == (text, 1)
        (former,) = tokens_of(file).list()
        kept.write_text("n" * 40)
        another = run_command("serve", "--storage", file, "--token-file", kept)
        assert f"the token {former.id}" in another.err
        assert "is revoked" in " ".join(another.err.split())
        kept.write_text("short")
        refused = run_command("serve", "--storage", file, "--token-file", kept)
        assert (refused.code, "A token has" in refused.err) == (2, True)

    def test_a_file_that_cannot_be_written_makes_no_token(
        self, run_command: Run, file: str, tmp_path: Path
    ) -> None:
        missing = tmp_path / "nowhere" / "token"
        refused = run_command("serve", "--storage", file, "--token-file", missing)
        assert (refused.code, "--token-file: cannot write" in refused.err) == (2, True)
        assert tokens_of(file).list() == []

    def test_who_has_no_admin_is_shown_one(self, run_command: Run, file: str) -> None:
        tokens_of(file).make(Role.WORKER, study="crowd")
        assert "login#" in run_command("serve", "--storage", file).out
        assert "login#" not in run_command("serve", "--storage", file).out

    def test_files_of_tls_that_are_none(self, run_command: Run, file: str, tmp_path: Path) -> None:
        one, other = tmp_path / "c.pem", tmp_path / "k.pem"
        words = ("serve", "--storage", file, "--certificate", one, "--key", other)
        missing = run_command(*words)
        assert (missing.code, "--certificate" in missing.err) == (2, True)
        one.write_text("x")
        missing = run_command(*words)
        assert (missing.code, "--key" in missing.err) == (2, True)
        other.write_text("x")
        wrong = run_command(*words)
        assert wrong.code == 2
        for word in ("PEM files", "c.pem", "k.pem"):
            assert word in wrong.err.replace("\n", " ")

    @pytest.mark.parametrize("host", ["::", "odd.example"])
    def test_others_reach_it_only_on_purpose(
        self, run_command: Run, file: str, tmp_path: Path, host: str
    ) -> None:
        refused = run_command("serve", "--storage", file, "--host", host)
        assert refused.code == 2
        assert "--tls-elsewhere" in refused.err.replace("\n", " ")
        assert tokens_of(file).list() == []
        for words in (["--tls-elsewhere"], ["--token-file", tmp_path / "token"]):
            assert run_command("serve", "--storage", file, "--host", host, *words).code == 0
        one = run_command("serve", "--storage", file, "--certificate", "x.pem")
        assert (one.code, "together" in one.err) == (2, True)

    def test_a_server_is_no_storage_to_serve(self, run_command: Run) -> None:
        for words in (["serve"], ["serve", "token", "list"]):
            refused = run_command(*words, "--storage", "http://localhost:1")
            assert (refused.code, refused.err.startswith("error: --storage must be")) == (2, True)


class TestTokens:
    def test_they_are_made_listed_and_revoked(self, run_command: Run, file: str) -> None:
        there = ("--storage", file)
        texts = [
            run_command("serve", "token", "admin", "--note", "mine", *there).out.strip(),
            run_command("serve", "token", "worker", "--study", "crowd", *there).out.strip(),
            run_command("serve", "token", "reader", "--days", "2", *there).out.strip(),
        ]
        found = [tokens_of(file).verified(text) for text in texts]
        assert [one.role for one in found if one] == [Role.ADMIN, Role.WORKER, Role.READER]
        listed = run_command("serve", "token", "list", *there).out
        assert not any(text in listed for text in texts)
        assert max(map(len, listed.splitlines())) <= 80
        assert "crowd" in listed
        assert run_command("serve", "token", "list", "--format", "json", *there).code == 0
        assert found[0] is not None
        assert run_command("serve", "token", "revoke", found[0].id, *there).code == 0
        assert tokens_of(file).verified(texts[0]) is None
        assert run_command("serve", "token", "revoke", "nothing", *there).code == 2

    @pytest.mark.parametrize(
        "words", [("serve", "--max-lease"), ("study", "archive", "--inactive")], ids=" ".join
    )
    def test_times_that_no_date_has(
        self, run_command: Run, file: str, words: tuple[str, ...]
    ) -> None:
        for time in ("999999999999d", "36501d", "9" * 400):
            refused = run_command(*words, time, "--storage", file)
            assert (refused.code, "at most 36500d" in " ".join(refused.err.split())) == (2, True)

    def test_a_worker_has_a_study(self, run_command: Run, file: str) -> None:
        there = ("--storage", file)
        assert run_command("serve", "token", "worker", *there).code == 2
        for days in ("3000000", "1e300", "nan", "0"):
            refused = run_command("serve", "token", "admin", "--days", days, *there)
            assert (refused.code, "--days" in refused.err) == (2, True)
        refused = run_command("serve", "token", "worker", "--study", "nobody", *there)
        assert (refused.code, "nobody" in refused.err) == (2, True)

    def test_nothing_is_made_where_nothing_is(self, run_command: Run, tmp_path: Path) -> None:
        missing = tmp_path / "missing.db"
        assert run_command("serve", "token", "admin", "--storage", missing).code == 2
        assert not missing.exists()


def test_a_port_that_is_taken(run_command: Run, file: str) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        port = one.getsockname()[1]
        refused = run_command("serve", "--storage", file, "--port", port)
    assert refused.code == 1
    assert "choose another --host or --port" in refused.err.replace("\n", " ")
    assert tokens_of(file).list() == []  # a token that nobody was shown would be the only one


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("192.0.2.1", "Cannot assign requested address"),
        ("nobody.invalid", "Name or service not known"),
    ],
)
def test_a_host_that_is_not_here(run_command: Run, file: str, host: str, said: str) -> None:
    words = ("--host", host, "--tls-elsewhere", "--port", "0")
    refused = run_command("serve", "--storage", file, *words)
    assert refused.code == 1
    assert said in refused.err.replace("\n", " ")


def test_the_log_is_lines_of_json_and_short(file: str, tmp_path: Path) -> None:
    """A change has the fields of its line; two hundred malformed requests leave one line."""
    server = ServerProcess(file, tmp_path, "--json-logs")
    token = admin_token(file)
    server.start()
    try:
        server.wait()
        for _ in range(200):
            with socket.create_connection(("127.0.0.1", server.port)) as one:
                one.sendall(b"NO HTTP\r\n\r\n")
                assert b" 400 " in one.recv(100)
        headers = {"Authorization": f"Bearer {token}"}
        answer = httpx.post(f"{server.address}/api/v1/studies/crowd/resume", headers=headers)
        assert answer.status_code == 200
    finally:
        server.kill()
    lines = [json.loads(line) for line in server.log.read_text().splitlines() if line[0] == "{"]
    assert [one["message"] for one in lines if one["level"] == "warning"] == [
        "Invalid HTTP request received."
    ]
    (change,) = [one for one in lines if one["logger"] == "oddarms.audit"]
    assert (change["action"], change["study"]) == ("resume", "crowd")
    assert change["request"] == answer.headers["x-request-id"]
    assert change["message"].startswith(f"resume token={change['token']} role=admin from=127.0.0.1")
