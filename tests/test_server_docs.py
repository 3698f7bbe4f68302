"""The examples of curl, the limits, the nginx and the unit of two pages, as they stand there."""

from __future__ import annotations

import gc
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from debian_packages import have
from helpers import ROOT
from oddarms import list_studies, load_study
from oddarms.errors import StorageFailed
from postgresql import NewStorage
from processes import free_port, wait_until
from servers import PATIENCE, STUDIES, ServerProcess, admin_token, served

USING, RUNNING = (
    (ROOT / "docs" / "how-to" / name).read_text(encoding="utf-8")
    for name in ("server.md", "running.md")
)
NAME = "studies.example.org"
AROUND = """
daemon off;
user root;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {configuration}
}}
"""


def blocks(language: str, page: str = RUNNING) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_examples_of_curl(tmp_path: Path, new_web_storage: NewStorage) -> None:
    examples = blocks("sh", USING)
    assert len(examples) >= 6
    with served(new_web_storage()) as server:
        environment = {**os.environ, "SERVER": server.address, "TOKEN": server.token}
        done = subprocess.run(
            ["sh", "-ex", "-c", "\n".join(examples)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        study = load_study("crowd", storage=server.address)
        assert [trial.reward for trial in study.trials() if trial.ticket] == [0.5]
        overview = study.overview()
        assert (overview.live, overview.stopped, overview.result.history) == (0, None, 4)
        assert study.question.budget == 90


def test_the_documented_limits(new_web_storage: NewStorage) -> None:
    """The server's own messages name the same numbers."""
    with (
        served(new_web_storage()) as server,
        server.client() as client,
        server.client("") as nobody,
    ):
        large = client.post(STUDIES, content=b" " * (8 * 2**20 + 1)).json()["detail"]
        assert f"{8 * 2**20:,} bytes" in large
        unknown = nobody.post(STUDIES, content=b" " * (16 * 2**10 + 1)).json()["detail"]
        assert f"{16 * 2**10:,} bytes" in unknown
        described: dict[str, Any] = client.get("/api/v1/openapi.json").json()
    schemas = described["components"]["schemas"]
    assert schemas["Ask"]["properties"]["n"]["maximum"] == 10_000
    assert "100,000" in schemas["NewStudy"]["properties"]["arms"]["description"]
    for limit in ("8 MiB with a token, 16 KiB without", "| 10,000 |", "| 100,000; create"):
        assert limit in USING


class _Here(httpx.HTTPTransport):
    """Finds every name on this machine."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(host="127.0.0.1")
        return super().handle_request(request)


def make_certificate(folder: Path) -> None:
    made = ["-keyout", folder / "key.pem", "-out", folder / "certificate.pem"]
    words = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={NAME}"]
    words += ["-addext", f"subjectAltName=DNS:{NAME},IP:127.0.0.1"]
    command = [have("openssl", lambda: shutil.which("openssl")), "req", "-x509", *words, *made]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def proxied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.Client]:
    """A client of a server behind nginx, under a prefix and a name of its own."""
    nginx = have("nginx-light", lambda: shutil.which("nginx") or shutil.which("/usr/sbin/nginx"))
    make_certificate(tmp_path)
    (words,) = re.findall(r"oddarms serve (--root-path.*)", RUNNING)
    monkeypatch.setenv("ODDARMS_TOKEN", admin_token(str(tmp_path / "studies.db")))
    server = ServerProcess(str(tmp_path / "studies.db"), tmp_path, *words.split())
    server.start()
    port = free_port()
    (configuration,) = blocks("nginx")
    for documented, here in (
        ("http://127.0.0.1:8321", server.address),
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/ssl/studies.pem", f"{tmp_path}/certificate.pem"),
        ("/etc/ssl/studies.key", f"{tmp_path}/key.pem"),
        ("client_header_timeout 10s", "client_header_timeout 1s"),
    ):
        assert documented in configuration
        configuration = configuration.replace(documented, here)
    (tmp_path / "nginx.conf").write_text(
        AROUND.format(folder=tmp_path, configuration=configuration)
    )
    address = f"https://{NAME}:{port}/oddarms"
    with subprocess.Popen([nginx, "-c", tmp_path / "nginx.conf", "-p", tmp_path]) as process:
        try:
            server.wait()
            with httpx.Client(
                transport=_Here(verify=False), base_url=address, timeout=PATIENCE
            ) as client:
                wait_until(lambda: _answers(client))
                yield client
        finally:
            process.terminate()
            server.kill()


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz").status_code == 200
    except httpx.ConnectError:
        return False


@pytest.mark.long
def test_the_documented_proxy(proxied: httpx.Client) -> None:
    client, token = proxied, os.environ["ODDARMS_TOKEN"]
    bearer = {"Authorization": f"Bearer {token}"}
    study = f"{STUDIES}/a%2Fb"
    question = {"name": "a/b", "arms": ["ann", "bob", "cy"], "k": 1}
    assert client.post(STUDIES, json=question, headers=bearer).status_code == 201
    asked = client.post(f"{study}/ask", json={"n": 3}, headers=bearer).json()
    results = [[ticket["id"], 0.5] for ticket in asked["tickets"]]
    told = client.post(f"{study}/tell", json={"results": results}, headers=bearer)
    assert told.status_code == 200

    origin = str(client.base_url).removesuffix("/oddarms/")
    form = {"token": token, "next": "/studies/a%2Fb"}
    elsewhere = client.post("/login", data=form, headers={"Origin": "https://evil.example"})
    assert elsewhere.status_code == 403
    plain = client.post("/login", data=form, headers={"Origin": origin.replace("https", "http")})
    assert plain.status_code == 403
    signed_in = client.post("/login", data=form, headers={"Origin": origin})
    assert (signed_in.status_code, signed_in.headers["Location"]) == (303, "/oddarms/studies/a%2Fb")
    cookie = signed_in.headers["Set-Cookie"]
    assert all(word in cookie for word in ("Secure", "HttpOnly", "SameSite=strict"))
    session = {"Cookie": cookie.partition(";")[0]}
    page = client.get(signed_in.headers["Location"].removeprefix("/oddarms"), headers=session)
    assert page.status_code == 200
    addresses = re.findall(r'(?:href|src|action)="(/[^"]*)"', page.text)
    assert addresses
    assert all(address.startswith("/oddarms/") for address in addresses)


@pytest.mark.long
def test_the_proxy_holds_off_what_the_server_does_not(proxied: httpx.Client) -> None:
    port = proxied.base_url.port
    assert proxied.post("/login", content=b"x" * 9 * 2**20).status_code == 413
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as silent:
        assert silent.recv(100) == b""  # closed by nginx
    several = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
    try:
        assert proxied.get("/healthz").status_code == 200
    finally:
        for one in several:
            one.close()


@pytest.mark.long
def test_a_certificate_that_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting does not help; and SSL_CERT_FILE also counts for this machine."""
    make_certificate(tmp_path)
    file = tmp_path / "studies.db"
    monkeypatch.setenv("ODDARMS_TOKEN", admin_token(str(file)))
    files = ("--certificate", str(tmp_path / "certificate.pem"), "--key", str(tmp_path / "key.pem"))
    server = ServerProcess(str(file), tmp_path, *files)
    server.start()
    try:
        server.wait()
        address = server.address.replace("http:", "https:")
        with pytest.raises(StorageFailed, match="its certificate is not trusted") as caught:
            list_studies(storage=address)
        assert not caught.value.passing
        del caught
        gc.collect()  # else the client without the certificate is shared
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        assert list_studies(storage=address) == []
    finally:
        server.kill()


def test_the_documented_unit_keeps_others_out_and_starts_again() -> None:
    (unit,) = blocks("ini")
    for line in (
        "UMask=0077",
        "StateDirectoryMode=0700",
        "RestartSec=5",
        "StartLimitIntervalSec=0",
    ):
        assert line in unit.splitlines()


@pytest.mark.long
def test_the_documented_unit(tmp_path: Path) -> None:
    systemd = have("systemd", lambda: shutil.which("systemd-analyze"))
    unit = tmp_path / "oddarms.service"
    (text,) = blocks("ini")
    unit.write_text(text.replace("/opt/oddarms/bin/oddarms", "/bin/true"))
    done = subprocess.run([systemd, "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
