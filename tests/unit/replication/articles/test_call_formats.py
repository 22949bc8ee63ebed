"""The call formats are the documents' (003, "call syntax"), and nothing else is taken for one."""

from __future__ import annotations

import re

import pytest

from rowtide.core.operations import Operation
from rowtide.core.options import WordUnknown
from rowtide.replication.articles.call_formats import (
    DEFAULTS,
    ArgumentGroup,
    CallFormat,
    Command,
    formats_of,
    parse_command,
    parts_of,
    read_commands,
)
from rowtide.replication.errors.publishing import CommandInvalid

INSERT, UPDATE, DELETE = Operation.INSERT, Operation.UPDATE, Operation.DELETE
CALL, SCALL, MCALL, XCALL = CallFormat.CALL, CallFormat.SCALL, CallFormat.MCALL, CallFormat.XCALL
SQL, NONE = CallFormat.SQL, CallFormat.NONE
NEW, CHANGED, OLD_KEY, OLD, BITMAP = (
    ArgumentGroup.NEW,
    ArgumentGroup.CHANGED,
    ArgumentGroup.OLD_KEY,
    ArgumentGroup.OLD,
    ArgumentGroup.BITMAP,
)

DOCUMENTED = [
    (INSERT, CALL, (NEW,)),
    (UPDATE, CALL, (NEW, OLD_KEY)),
    (DELETE, CALL, (OLD_KEY,)),
    (UPDATE, SCALL, (CHANGED, OLD_KEY, BITMAP)),
    (UPDATE, MCALL, (NEW, OLD_KEY, BITMAP)),
    (UPDATE, XCALL, (OLD, NEW)),
    (DELETE, XCALL, (OLD,)),
]


@pytest.mark.parametrize(("operation", "call_format", "parts"), DOCUMENTED)
def test_a_call_gives_the_documented_parts_in_order(
    operation: Operation, call_format: CallFormat, parts: tuple[ArgumentGroup, ...]
) -> None:
    assert parts_of(operation, call_format) == parts


@pytest.mark.parametrize("operation", [INSERT, UPDATE, DELETE])
def test_a_statement_is_given_what_a_plain_call_is(operation: Operation) -> None:
    assert parts_of(operation, SQL) == parts_of(operation, CALL)


@pytest.mark.parametrize("operation", [INSERT, UPDATE, DELETE])
def test_what_is_not_propagated_has_no_parts(operation: Operation) -> None:
    with pytest.raises(KeyError, match=re.escape(f"({operation!r}, {NONE!r})")):
        parts_of(operation, NONE)


@pytest.mark.parametrize(
    ("operation", "formats"),
    [
        (INSERT, {CALL, SQL, NONE}),
        (UPDATE, {CALL, SCALL, MCALL, XCALL, SQL, NONE}),
        (DELETE, {CALL, XCALL, SQL, NONE}),
    ],
)
def test_each_operation_has_its_own_formats(operation: Operation, formats: set[CallFormat]) -> None:
    assert set(formats_of(operation)) == formats
    assert len(formats_of(operation)) == len(formats)


def test_the_defaults_are_sp_addarticles() -> None:
    documented = {INSERT: Command(CALL), UPDATE: Command(SCALL), DELETE: Command(CALL)}
    assert documented == DEFAULTS


@pytest.mark.parametrize(
    ("operation", "text", "command"),
    [
        (INSERT, "CALL", Command(CALL)),
        (UPDATE, "mcall", Command(MCALL)),
        (UPDATE, "sCaLl", Command(SCALL)),
        (DELETE, "  XCALL\t", Command(XCALL)),
        (INSERT, "none", Command(NONE)),
        (DELETE, "Sql", Command(SQL)),
        (INSERT, "CALL my_insert", Command(CALL, "my_insert")),
        (UPDATE, " scall   dbo.My_Update ", Command(SCALL, "dbo.My_Update")),
        (DELETE, 'call "Odd Schema"."delete it"', Command(CALL, '"Odd Schema"."delete it"')),
    ],
)
def test_command_ignores_case_except_in_the_procedure_name(operation: Operation, text: str, command: Command) -> None:
    assert parse_command(operation, text) == command


@pytest.mark.parametrize("operation", [INSERT, UPDATE, DELETE])
def test_a_command_is_printed_as_it_is_read(operation: Operation) -> None:
    plain = [Command(call_format) for call_format in formats_of(operation)]
    custom = [Command(call_format, "my_own") for call_format in formats_of(operation) if call_format not in (SQL, NONE)]
    for command in plain + custom:
        assert parse_command(operation, str(command)) == command


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        (UPDATE, "ZCALL my_update"),
        (INSERT, "SCALL my_insert"),
        (INSERT, "MCALL"),
        (INSERT, "XCALL"),
        (DELETE, "SCALL"),
        (DELETE, "MCALL my_delete"),
        (INSERT, "SQL my_insert"),
        (DELETE, "NONE at all"),
        (UPDATE, "CALLmy_update"),
        (UPDATE, "my_update"),
        (UPDATE, ""),
        (UPDATE, "  "),
    ],
)
def test_what_an_operation_does_not_have_is_refused(operation: Operation, text: str) -> None:
    with pytest.raises(CommandInvalid) as refused:
        parse_command(operation, text)
    assert (refused.value.text, refused.value.operation) == (text, operation.name.lower())


@pytest.mark.parametrize(
    ("operation", "text", "formats"),
    [
        (INSERT, "SQL my_insert", "CALL, SQL, NONE"),
        (UPDATE, "ZCALL my_update", "CALL, SCALL, MCALL, XCALL, SQL, NONE"),
        (DELETE, "scall", "CALL, XCALL, SQL, NONE"),
    ],
)
def test_a_refusal_says_what_may_be_written_instead(operation: Operation, text: str, formats: str) -> None:
    with pytest.raises(CommandInvalid) as refused:
        parse_command(operation, text)
    assert str(refused.value) == (
        f'RT-7101: "{text}" is not a call format for {operation.name.lower()}s. '
        f"Use one of {formats}; a custom procedure's name may follow a call format."
    )


def test_commands_are_read_as_they_are_written() -> None:
    given = {"insert": "none", UPDATE: Command(MCALL, "own"), "delete": "xcall gone"}
    assert read_commands(given) == {
        INSERT: Command(NONE),
        UPDATE: Command(MCALL, "own"),
        DELETE: Command(XCALL, "gone"),
    }


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"truncate": "none"}, WordUnknown),
        ({"inserts": "none"}, WordUnknown),
        ({"insert": "scall"}, CommandInvalid),
        ({INSERT: Command(SCALL)}, CommandInvalid),
    ],
)
def test_commands_that_nothing_means_are_refused(given: dict[object, object], error: type[Exception]) -> None:
    with pytest.raises(error, match="insert"):
        read_commands(given)
