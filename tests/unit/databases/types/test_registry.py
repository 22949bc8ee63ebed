"""Types are found by their text and oid, and what tells them apart is in their families alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.values.type_catalogue import SAMPLES
from rowtide.databases.postgres.values import describe_code, lake_type
from rowtide.databases.sqlite.values import stored_type
from rowtide.databases.types import registry
from rowtide.databases.types.registry import FAMILIES, TYPES, find_code, find_type
from rowtide.databases.types.strings import OTHER
from rowtide.databases.types.value_type import TypeKind, ValueType
from rowtide.merge.articles import ArticleColumn
from rowtide.merge.conflicts.resolvers import order
from rowtide.merge.nodes.untyped_values import declaration_of
from rowtide.replication.filters.conditions import Inexact, find_type as find_compared

SOURCE = Path(__file__).parents[4] / "src" / "rowtide"
LANGUAGES = {
    "gateway/long_polling.py": "the types by which merge's filters are evaluated for all partitions together",
    "merge/partitions/expressions/grammar.py": "the words of merge's filters, which both databases read",
    "merge/partitions/expressions/tree.py": "the types between which merge's filters convert on both databases",
}
OF_SPARK = {"smallint", "bigint", "real", "boolean", "date", "interval", "timestamp", "name"}
"""Names that the lake's types have too, or columns of system tables."""


def test_every_type_is_found_by_its_name_and_oid() -> None:
    assert [find_type(each.name).value_type for each in TYPES] == [*TYPES]
    coded = [each for each in TYPES if each.oid is not None]
    assert [find_code(each.oid) for each in coded if each.oid is not None] == coded


def test_no_name_and_no_oid_has_two_types() -> None:
    names = [each.name for each in TYPES]
    oids = [oid for each in TYPES for oid in (each.oid, each.array_oid) if oid is not None]
    assert len(names) == len(set(names))
    assert len(oids) == len(set(oids))


@pytest.mark.parametrize(
    ("type_text", "name", "modifiers"),
    [
        ("numeric(10,-2)", "numeric", (10, -2)),
        ("character varying(20)", "character varying", (20,)),
        ("timestamp(3) without time zone", "timestamp without time zone", (3,)),
        ("time(0) with time zone", "time with time zone", (0,)),
        ("interval day to second(3)", "interval", (3,)),
        ("interval(3)", "interval", (3,)),
        ("bit varying(3)", "bit varying", (3,)),
    ],
)
def test_modifiers_are_no_part_of_the_name(type_text: str, name: str, modifiers: tuple[int, ...]) -> None:
    found = find_type(type_text)
    assert (found.value_type.name, found.modifiers) == (name, modifiers)


@pytest.mark.parametrize(
    "type_text",
    ["integer[]", "numeric(10,2)[]", "public.mood", "public.interval", "public.vector(3)", '"char"', "intervals"],
)
def test_arrays_and_unknown_types_are_other(type_text: str) -> None:
    assert find_type(type_text).value_type is OTHER


@pytest.mark.parametrize(
    ("type_code", "type_modifier", "text"),
    [
        (1560, 5, "bit(5)"),
        (1562, -1, "bit varying"),
        (869, -1, "inet"),
        (1186, -1, "interval"),
        (3904, -1, "type 3904"),
    ],
)
def test_types_are_named_by_oid_and_modifier(type_code: int, type_modifier: int, text: str) -> None:
    assert describe_code(type_code, type_modifier) == text


def test_intervals_of_some_fields_are_ordered_as_intervals() -> None:
    column = ArticleColumn("span", "interval day to second(3)", is_nullable=True, key_ordinal=None)
    keys = [order(column, text) for text in ("PT90S", "PT2M", "P1D")]
    assert keys == sorted(keys)


def test_a_new_type_is_one_entry_of_a_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that asks for a type's treatment asks the registry: no other table has to know the type."""
    integer = find_type("bigint").value_type
    added = ValueType(
        name="public.int16",
        kind=TypeKind.WHOLE_NUMBER,
        oid=90001,
        bits=128,
        lake=find_type("numeric").value_type.lake,
        stored=integer.stored,
        device=integer.device,
        compared="sixteen bytes are not compared",
    )
    monkeypatch.setitem(registry._BY_NAME, added.name, added)
    monkeypatch.setitem(registry._BY_OID, 90001, added)
    find_type.cache_clear()
    try:
        assert describe_code(90001, -1) == "public.int16"
        assert lake_type("public.int16").name == "string"
        assert stored_type("public.int16") is integer.stored
        assert declaration_of("public.int16") == "integer"
        assert find_compared("public.int16", is_deterministic=True) == Inexact(
            "sixteen bytes are not compared", may_be_null=True
        )
    finally:
        find_type.cache_clear()


def test_no_other_module_has_a_table_of_types() -> None:
    found = {
        f"{path.relative_to(SOURCE)}:{line}"
        for path in SOURCE.rglob("*.py")
        if not path.is_relative_to(SOURCE / "databases" / "types")
        and str(path.relative_to(SOURCE)) not in LANGUAGES
        and "cli" not in path.relative_to(SOURCE).parts
        for line in find_tables(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set()


def test_a_table_of_types_is_found() -> None:
    text = 'A = ("integer", "text")\nB = {"bytea": 1, "uuid": 2}\nC = ("smallint", "bigint")\nD = ("integer", "more")\n'
    assert [*find_tables(ast.parse(text))] == [1, 2]


def test_every_family_has_samples() -> None:
    sampled = {find_type(each.value_type_text).value_type.name for each in SAMPLES}
    assert [family.__name__ for family in FAMILIES if not sampled & {each.name for each in family.TYPES}] == []


def find_tables(module: ast.Module) -> Iterator[int]:
    """Yield the lines of collections of nothing but names of PostgreSQL's types."""
    names = {each.name for each in TYPES}
    for node in ast.walk(module):
        match node:
            case ast.Tuple(elts=parts) | ast.Set(elts=parts) | ast.List(elts=parts):
                pass
            case ast.Dict(keys=keys):
                parts = [key for key in keys if key is not None]
            case _:
                continue
        words = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        if len(words) == len(parts) > 1 and names.issuperset(words) and not OF_SPARK.issuperset(words):
            yield node.lineno
