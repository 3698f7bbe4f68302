"""The server behind a real nginx with TLS, set up as docs/server.md says."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from debian_packages import have
from oddarms import list_studies
from oddarms.errors import StorageFailed
from processes import free_port, wait_until
from servers import ServerProcess, admin_token

PAGE = Path(__file__).parents[1] / "docs" / "server.md"
NAME = "studies.example.org"
CONFIGURATION = """
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
    server {{
        listen 127.0.0.1:{port} ssl;
        ssl_certificate {folder}/certificate.pem;
        ssl_certificate_key {folder}/key.pem;
        {location}
    }}
}}
"""


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return str(found)


def make_certificate(folder: Path) -> None:
    made = ["-keyout", folder / "key.pem", "-out", folder / "certificate.pem"]
    words = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={NAME}"]
    words += ["-addext", f"subjectAltName=DNS:{NAME},IP:127.0.0.1"]
    command = [have("openssl", lambda: shutil.which("openssl")), "req", "-x509", *words, *made]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def proxied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server behind nginx, under a prefix and a name of its own."""
    nginx = have("nginx-light", lambda: shutil.which("nginx") or shutil.which("/usr/sbin/nginx"))
    make_certificate(tmp_path)
    (words,) = re.findall(r"oddarms serve (--root-path.*)", PAGE.read_text(encoding="utf-8"))
    monkeypatch.setenv("ODDARMS_TOKEN", admin_token(str(tmp_path / "studies.db")))
    server = ServerProcess(str(tmp_path / "studies.db"), tmp_path, *words.split())
    server.start()
    port = free_port()
    location = block("nginx").replace("http://127.0.0.1:8321", server.address)
    configuration = CONFIGURATION.format(folder=tmp_path, port=port, location=location)
    (tmp_path / "nginx.conf").write_text(configuration)
    with subprocess.Popen([nginx, "-c", tmp_path / "nginx.conf", "-p", tmp_path]) as process:
        try:
            server.wait()
            yield f"https://{NAME}:{port}/oddarms"
        finally:
            process.terminate()
            server.kill()


class _Here(httpx.HTTPTransport):
    """Finds every name on this machine."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(host="127.0.0.1")
        return super().handle_request(request)


@pytest.fixture
def client(proxied: str) -> Iterator[httpx.Client]:
    with httpx.Client(transport=_Here(verify=False), base_url=proxied, timeout=60.0) as made:
        wait_until(lambda: _answers(made))
        yield made


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz").status_code == 200
    except httpx.ConnectError:
        return False


@pytest.mark.long
def test_the_documented_proxy(client: httpx.Client) -> None:
    token = os.environ["ODDARMS_TOKEN"]
    bearer = {"Authorization": f"Bearer {token}"}
    studies, study = "/api/v1/studies", "/api/v1/studies/a%2Fb"
    question = {"name": "a/b", "arms": ["ann", "bob", "cy"], "k": 1}
    assert client.post(studies, json=question, headers=bearer).status_code == 201
    asked = client.post(f"{study}/ask", json={"n": 3}, headers=bearer).json()
    with client.stream("GET", f"{study}/events", headers=bearer) as events:
        lines = (line for line in events.iter_lines() if line.startswith("data:"))
        before = next(lines)
        results = [[ticket["id"], 0.5] for ticket in asked["tickets"]]
        told = client.post(f"{study}/tell", json={"results": results}, headers=bearer)
        assert told.status_code == 200
        assert next(lines) != before  # at once, not when a buffer is full

    origin = str(client.base_url).removesuffix("/oddarms/")
    form = {"token": token, "next": "/studies/a%2Fb"}
    elsewhere = client.post("/login", data=form, headers={"Origin": "https://evil.example"})
    assert elsewhere.status_code == 403
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
def test_a_certificate_that_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not pass by itself; and SSL_CERT_FILE holds for this machine, too."""
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
    lines = block("ini").splitlines()
    for line in (
        "UMask=0077",
        "StateDirectoryMode=0700",
        "RestartSec=5",
        "StartLimitIntervalSec=0",
    ):
        assert line in lines


@pytest.mark.long
def test_the_documented_unit(tmp_path: Path) -> None:
    systemd = have("systemd", lambda: shutil.which("systemd-analyze"))
    unit = tmp_path / "oddarms.service"
    unit.write_text(block("ini").replace("/opt/oddarms/bin/oddarms", "/bin/true"))
    done = subprocess.run([systemd, "verify", unit], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
