"""``oddarms serve`` as people type it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers import Run
from oddarms import create_study
from oddarms.server import _run
from oddarms.server._tokens import Role, Tokens
from oddarms.studies._database_storage import DatabaseStorage


@pytest.fixture
def file(tmp_path: Path) -> str:
    create_study("crowd", ["a", "b", "c"], storage=tmp_path / "studies.db")
    return str(tmp_path / "studies.db")


def tokens_of(file: str) -> Tokens:
    return Tokens(DatabaseStorage.opened(file))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Says that it has started, and ends."""

    def run(_app: object, place: _run.Place, say: object) -> None:
        say(place.url(place.port))  # type: ignore[operator]

    monkeypatch.setattr("oddarms.cli.serve._command.run", run)


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
        kept.write_text("short")
        refused = run_command("serve", "--storage", file, "--token-file", kept)
        assert (refused.code, "a token must have" in refused.err) == (2, True)

    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "odd.example"])
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
            assert (refused.code, refused.err.startswith("error: storage must be")) == (2, True)


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

    def test_a_worker_has_a_study(self, run_command: Run, file: str) -> None:
        there = ("--storage", file)
        assert run_command("serve", "token", "worker", *there).code == 2
        refused = run_command("serve", "token", "worker", "--study", "nobody", *there)
        assert (refused.code, "nobody" in refused.err) == (2, True)

    def test_nothing_is_made_where_nothing_is(self, run_command: Run, tmp_path: Path) -> None:
        missing = tmp_path / "missing.db"
        assert run_command("serve", "token", "admin", "--storage", missing).code == 2
        assert not missing.exists()


def test_a_port_that_is_taken(run_command: Run, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    for name in ("_raise_file_limit", "_log_to_stderr"):  # they change this process
        monkeypatch.setattr(_run, name, lambda: None)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        port = one.getsockname()[1]
        refused = run_command("serve", "--storage", file, "--port", port)
    assert refused.code == 1
    assert "must be free to listen on" in refused.err.replace("\n", " ")
    assert tokens_of(file).list() == []  # a token that nobody was shown would be the only one
