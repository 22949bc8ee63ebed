"""A server that demands TLS and a client's certificate, as `hostssl … cert clientcert=verify-full` of pg_hba.conf does.

The embedded servers are built without OpenSSL: this stands before one of them, answers the request for TLS, judges the
certificate, and passes on what follows.
"""

from __future__ import annotations

import multiprocessing
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any
from urllib.parse import quote

import trustme

from rowtide.databases.postgres.embedded import EmbeddedServer

_TLS_REQUEST, _GSS_REQUEST, _CANCEL_REQUEST = 80877103, 80877104, 80877102
_PIECE = 1 << 16


@dataclass(frozen=True)
class Identity:
    """The files by which a client shows who it is, and knows the server."""

    certificate: Path
    key: Path
    authority: Path

    @classmethod
    def issue(cls, authority: trustme.CA, trusted: trustme.CA, name: str, folder: Path) -> Identity:
        """Write a certificate with a common name, its key, and the authority that the client trusts."""
        folder.mkdir(parents=True)
        issued = authority.issue_cert(common_name=name)
        made = cls(folder / "client.crt", folder / "client.key", folder / "root.crt")
        issued.cert_chain_pems[0].write_to_path(str(made.certificate))
        issued.private_key_pem.write_to_path(str(made.key))
        made.key.chmod(0o600)
        trusted.cert_pem.write_to_path(str(made.authority))
        return made

    def parameters(self) -> str:
        """Return the parameters of a URL."""
        told = {"sslcert": self.certificate, "sslkey": self.key, "sslrootcert": self.authority}
        return "&".join(["sslmode=verify-full", *(f"{name}={quote(str(path))}" for name, path in told.items())])


@dataclass(frozen=True)
class TlsProxy:
    """Stands before a server."""

    listening: int
    """The port on which it listens."""
    authority: trustme.CA
    """Takes the certificates of this one."""
    let_in: Synchronized[int]
    """How many connections were."""


@contextmanager
def demanding_tls(server: EmbeddedServer, folder: Path, host: str = "localhost") -> Iterator[TlsProxy]:
    """Stand before a server on this machine.

    In a process of its own: in this one, each message of the protocol would wait for other threads of Python.
    """
    authority = trustme.CA()
    own, trusted = folder / "server.pem", folder / "clients.pem"
    authority.issue_cert("localhost", "::1", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(own))
    authority.cert_pem.write_to_path(str(trusted))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    local = server.socket_directory / f".s.PGSQL.{server.settings['port']}"
    spawning = multiprocessing.get_context("spawn")
    let_in = spawning.Value("i", 0)
    with socket.create_server((host, 0), family=family) as listener:
        process = spawning.Process(target=_serve, args=(listener, local, own, trusted, let_in), daemon=True)
        process.start()
        try:
            yield TlsProxy(listener.getsockname()[1], authority, let_in)
        finally:
            process.terminate()
            process.join()


def _serve(listener: socket.socket, server: Path, own: Path, trusted: Path, let_in: Synchronized[int]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    context.load_verify_locations(trusted)
    context.verify_mode = ssl.CERT_REQUIRED
    while True:
        client, _ = listener.accept()
        threading.Thread(target=_let_in, args=(client, server, context, let_in), daemon=True).start()


def _let_in(client: socket.socket, server: Path, context: ssl.SSLContext, let_in: Synchronized[int]) -> None:
    with suppress(OSError, EOFError), closing(client):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code, first = _read_first(client)
        while code == _GSS_REQUEST:
            client.sendall(b"N")
            code, first = _read_first(client)
        if code != _TLS_REQUEST:
            _refuse(client, "no pg_hba.conf entry for this host, no encryption")
            return
        client.sendall(b"S")
        with context.wrap_socket(client, server_side=True) as encrypted:
            code, first = _read_first(encrypted)
            if code != _CANCEL_REQUEST and _user_of(first) != _name_of(encrypted):
                _refuse(encrypted, f'certificate authentication failed for user "{_user_of(first)}"')
                return
            with let_in.get_lock():
                let_in.value += 1
            with socket.socket(socket.AF_UNIX) as behind:
                behind.connect(str(server))
                behind.sendall(first)
                back = threading.Thread(target=_pass_on, args=(behind, encrypted), daemon=True)
                back.start()
                _pass_on(encrypted, behind)
                back.join()


def _read_first(client: socket.socket) -> tuple[int, bytes]:
    head = _read_exactly(client, 8)
    length, code = struct.unpack("!ii", head)
    return code, head + _read_exactly(client, length - 8)


def _read_exactly(client: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = client.recv(count - len(found))
        if not piece:
            raise EOFError
        found += piece
    return found


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    """Pass bytes on until an end is closed, then end both: PostgreSQL's protocol has no half-open connections."""
    with suppress(OSError):
        while piece := source.recv(_PIECE):
            sink.sendall(piece)
    _end(source)
    _end(sink)


def _end(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)


def _refuse(client: socket.socket, message: str) -> None:
    fields = b"".join(
        code + text.encode() + b"\0" for code, text in ((b"S", "FATAL"), (b"C", "28000"), (b"M", message))
    )
    client.sendall(b"E" + struct.pack("!i", len(fields) + 5) + fields + b"\0")


def _user_of(startup: bytes) -> str:
    parts = startup[8:].split(b"\0")
    return dict(zip(parts[::2], parts[1::2], strict=False)).get(b"user", b"").decode()


def _name_of(client: ssl.SSLSocket) -> str:
    subject: Any = (client.getpeercert() or {}).get("subject", ())
    found = [value for parts in subject for name, value in parts if name == "commonName"]
    return str(found[0]) if found else ""
