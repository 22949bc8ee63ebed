"""Sockets that listen on an address."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from rowtide.core.addresses import Address
from rowtide.monitor.errors import ListeningFailed


@contextmanager
def bound_to(listen: Address) -> Iterator[socket.socket]:
    """Yield a socket that listens on an address, which no other process does. Raises `ListeningFailed`."""
    try:
        found = socket.getaddrinfo(listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ListeningFailed(str(listen), error.strerror or str(error)) from error
    with bound:
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen(128)
        except OSError as error:
            raise ListeningFailed(str(listen), error.strerror or str(error)) from error
        yield bound
