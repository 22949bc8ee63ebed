"""Registration codes and tokens."""

from __future__ import annotations

import pytest

from rowtide.merge.devices.credentials import (
    ALPHABET,
    Credential,
    is_of,
    new_code,
    new_device_id,
    read_code,
    read_token,
    token_for,
)

CODE = Credential("0123456789", "ABCDEFGHJKMNPQR")


@pytest.mark.parametrize(
    "typed",
    [
        "01234-56789-ABCDE-FGHJK-MNPQR",
        "  o1234 56789 abcde fghjk mnpqr ",
        "OI234-56789-ABCDE-FGHJK-MNPQR",
        "0L23456789ABCDEFGHJKMNPQR",
    ],
)
def test_a_code_is_read_as_people_type_it(typed: str) -> None:
    assert read_code(typed) == CODE


@pytest.mark.parametrize(
    "typed", ["", "01234", CODE.as_code + "0", CODE.as_code.replace("A", "U"), "01234-56789-ABCDE-FGHJK-MNPQé"]
)
def test_what_is_no_code_is_none(typed: str) -> None:
    assert read_code(typed) is None


def test_a_token_names_its_device_and_is_read_again() -> None:
    token = token_for(CODE, "a key of some length")
    assert token.device_id == CODE.device_id
    assert read_token(token.as_token) == token
    assert read_token(token.as_token + "A") is None
    assert read_token(CODE.as_code) is None


def test_the_same_request_gets_the_same_token() -> None:
    assert token_for(CODE, "one key") == token_for(CODE, "one key")
    assert token_for(CODE, "one key") != token_for(CODE, "another key")


def test_a_digest_is_of_one_secret() -> None:
    assert is_of(CODE, CODE.digest)
    assert not is_of(Credential(CODE.device_id, "X"), CODE.digest)
    assert not is_of(CODE, None)


def test_a_secret_is_not_shown() -> None:
    assert CODE.secret not in repr(CODE)


def test_codes_are_random_and_of_the_alphabet() -> None:
    codes = {new_code(new_device_id()).as_code for _ in range(100)}
    assert len(codes) == 100
    assert set("".join(codes)) <= {*ALPHABET, "-"}
