"""Addresses to listen on, as HOST:PORT. Pure."""

from __future__ import annotations

from rowtide.core.errors import Invalid
from rowtide.core.values import frozen

_MOST_PORT = 65535


class ListenAddressInvalid(Invalid, number=1203):
    """The text is no address to listen on."""

    fact = "{text} is no address to listen on: {reason}"
    hint = "Write HOST:PORT, as 127.0.0.1:8080 or [::1]:8080."
    text: str
    reason: str


@frozen
class Address:
    """Where a server listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read HOST:PORT; an IPv6 address is in brackets. Raises `ListenAddressInvalid`."""
        host, colon, port = text.rpartition(":")
        if not colon or not host:
            raise ListenAddressInvalid(text, "it has no port")
        if not port.isascii() or not port.isdigit() or int(port) > _MOST_PORT:
            raise ListenAddressInvalid(text, f"{port} is no port")
        if host.startswith("[") and host.endswith("]"):
            return cls(host[1:-1], int(port))
        if ":" in host:
            raise ListenAddressInvalid(text, "an IPv6 address is written in brackets")
        if "/" in host or any(character.isspace() for character in host):
            raise ListenAddressInvalid(text, f"{host} is no host")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def as_address(text: str) -> str:
    """Return the text of an address, as the check of an option (`ValueError`)."""
    try:
        Address.parse(text)
    except ListenAddressInvalid as error:
        raise ValueError(f"write host:port, as 127.0.0.1:8080 or [::1]:8080: {error.reason}") from error
    return text
