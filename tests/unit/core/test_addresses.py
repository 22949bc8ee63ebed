"""Addresses to listen on, as options and the configuration file have them."""

from __future__ import annotations

import pytest

from rowtide.core.addresses import Address, ListenAddressInvalid, as_address


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:8080", Address("127.0.0.1", 8080)), ("[::1]:80", Address("::1", 80)), ("host:0", Address("host", 0))],
)
def test_an_address_is_read(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it has no port"),
        ("8080", "it has no port"),
        (":8080", "it has no port"),
        ("::1:80", "an IPv6 address is written in brackets"),
        ("host:", " is no port"),
        ("host:x", "x is no port"),
        ("host:65536", "65536 is no port"),
        ("host:-1", "-1 is no port"),
        ("host:²", "² is no port"),
        ("a b:80", "a b is no host"),
        ("host/x:80", "host/x is no host"),
        ("http://host:80", "an IPv6 address is written in brackets"),
    ],
)
def test_what_is_no_address_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ListenAddressInvalid, match=reason):
        Address.parse(text)
    with pytest.raises(ValueError, match=f"write host:port.*{reason}"):
        as_address(text)
