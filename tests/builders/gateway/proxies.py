"""nginx and Caddy before gateways, with the configuration that the how-to prints."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trustme

from builders.servers.poolers import await_listening

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "gateway.md"
_PROGRAMS = ROOT / ".venv" / "proxies"
"""Where `scripts/fetch-proxies` puts them."""
_NGINX = """
{user}
daemon off;
pid {folder}/nginx.pid;
error_log stderr;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {printed}
}}
"""
_CADDY = """
{{
    admin off
    skip_install_trust
    auto_https disable_redirects
}}
{printed}
"""


@dataclass(frozen=True)
class Proxy:
    """A proxy that has TLS; `authority` is the certificate that its clients have to trust."""

    port: int
    authority: Path

    def url(self, hub: str) -> str:
        """Return the address of a hub."""
        return f"https://localhost:{self.port}/{hub}"


def read_printed(language: str) -> str:
    """Return the configuration in a language that the page has."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert len(found) == 1, f"{PAGE} has {len(found)} configurations in {language}"
    return str(found[0])


def replaced(text: str, values: Mapping[str, str]) -> str:
    """Return a text with all of these replaced; each has to be there."""
    for before, after in values.items():
        assert before in text, f"{before} is not in the page's configuration"
        text = text.replace(before, after)
    return text


@contextmanager
def nginx_before(one: int, other: int, folder: Path) -> Iterator[Proxy]:
    """Run nginx before two gateways of this machine."""
    folder.mkdir()
    authority, port = folder / "authority.pem", _free_port()
    trusted = trustme.CA()
    trusted.cert_pem.write_to_path(str(authority))
    trusted.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(folder / "sync.pem"))
    printed = replaced(
        read_printed("nginx"),
        {
            "10.0.0.1:8090": f"127.0.0.1:{one}",
            "10.0.0.2:8090": f"127.0.0.1:{other}",
            "listen 443": f"listen 127.0.0.1:{port}",
            "sync.example": "localhost",
            "/etc/ssl/sync.pem": f"{folder}/sync.pem",
            "/etc/ssl/sync.key": f"{folder}/sync.pem",
        },
    )
    configuration = folder / "nginx.conf"
    # Its workers would have no right to folders of root's.
    user = "user root;" if os.geteuid() == 0 else ""
    configuration.write_text(_NGINX.format(user=user, folder=folder, printed=printed))
    command = [str(_PROGRAMS / "nginx"), "-p", str(folder), "-c", str(configuration), "-e", "stderr"]
    with _running(command, folder, port):
        yield Proxy(port, authority)


@contextmanager
def caddy_before(one: int, other: int, folder: Path) -> Iterator[Proxy]:
    """Run Caddy before two gateways of this machine; it makes its certificate itself."""
    folder.mkdir()
    port = _free_port()
    printed = replaced(
        read_printed("caddy"),
        {
            "10.0.0.1:8090": f"127.0.0.1:{one}",
            "10.0.0.2:8090": f"127.0.0.1:{other}",
            "sync.example": f"https://localhost:{port}",
        },
    )
    (folder / "Caddyfile").write_text(_CADDY.format(printed=printed))
    command = [str(_PROGRAMS / "caddy"), "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]
    with _running(command, folder, port):
        yield Proxy(port, folder / "caddy" / "pki" / "authorities" / "local" / "root.crt")


PROXIES = {"nginx": nginx_before, "caddy": caddy_before}


@contextmanager
def _running(command: Sequence[str], folder: Path, port: int) -> Iterator[None]:
    log = folder / "log"
    environment = {"PATH": os.defpath, **dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"), str(folder))}
    with log.open("wb") as written:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=written, stderr=written, env=environment, cwd=folder
        )
    try:
        await_listening(process, port, log)
        yield
    finally:
        process.terminate()
        process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port
