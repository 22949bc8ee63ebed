from __future__ import annotations

import json
from dataclasses import replace

import pytest

from builders.capture.capture_instances import alteration_of, source_table
from builders.log.log_stores import member
from rowtide.core.json_records import JsonInvalid
from rowtide.log.membership import (
    Alteration,
    decode_disable,
    decode_member,
    encode_disable,
    encode_member,
    follow_alteration,
    needed_columns,
)


def test_a_member_survives_its_enable_message() -> None:
    written = replace(member(), table='100% "O\'Brien"::Orders', columns=("id", "größe\\"), definition='{"a": null}')

    assert decode_member(encode_member(written)) == written


def test_a_disable_message_names_the_member_and_nothing_else() -> None:
    assert json.loads(encode_disable('it\'s "m1"')) == {"member_id": 'it\'s "m1"'}
    assert decode_disable(encode_disable('it\'s "m1"')) == 'it\'s "m1"'


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "not JSON"),
        ("m1", "not JSON"),
        ("[]", "not an object"),
        ("{}", "not the record _Leaving"),
        ('{"member_id": 1}', "member_id is not a text"),
        ('{"member_id": null}', "member_id is not a text"),
        ('"m1"', "not an object"),
    ],
)
def test_what_is_no_disable_message_is_refused(content: str, problem: str) -> None:
    with pytest.raises(JsonInvalid, match=f"^{problem}$"):
        decode_disable(content)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "not JSON"),
        ("[]", "not an object"),
        ("{}", "not the record Member"),
        (encode_disable("m1"), "not the record Member"),
        (encode_member(member()).replace('"columns":', '"others":'), "not the record Member"),
    ],
)
def test_what_is_no_enable_message_is_refused(content: str, problem: str) -> None:
    with pytest.raises(JsonInvalid, match=problem):
        decode_member(content)


def test_needed_columns_are_united_over_the_members_of_one_table() -> None:
    first = replace(member("m1"), source_id=1, columns=("a", "b"))
    second = replace(member("m2"), source_id=1, columns=("b", "c"))
    elsewhere = replace(member("m3"), source_id=2, columns=("d",))

    assert needed_columns([first, second, elsewhere], 1) == {"a", "b", "c"}
    assert needed_columns([elsewhere], 1) == frozenset()


def test_member_without_column_numbers_keeps_columns_by_name() -> None:
    renamed = Alteration(16385, "app", "t2", "ALTER TABLE", "", rewrites_values=False, columns=())
    followed = follow_alteration(member(), renamed)
    assert (followed.schema, followed.table, followed.columns) == ("app", "t2", ("id", "name"))
    assert follow_alteration(replace(member(), source_id=9), renamed) == replace(member(), source_id=9)


def test_column_no_longer_generated_is_read_in_table_order() -> None:
    table = source_table([("id", "integer"), ("twice", "integer"), ("name", "text")])
    made = replace(member(), column_numbers=(1, 3), computed_numbers=(2,))
    generated = tuple(replace(column, is_generated=column.name == "twice") for column in table.columns)
    followed = follow_alteration(made, alteration_of(replace(table, columns=generated)))
    assert (followed.column_numbers, followed.computed_numbers) == ((1, 3), (2,))
    followed = follow_alteration(followed, alteration_of(table))
    assert (followed.columns, followed.column_numbers) == (("id", "twice", "name"), (1, 2, 3))
    assert followed.computed_numbers == ()


def test_enable_message_without_column_numbers_is_decoded() -> None:
    fields = json.loads(encode_member(member()))
    del fields["column_numbers"]
    assert decode_member(json.dumps(fields)) == member()
