"""Procedures that apply many calls of one article and operation at once. Pure.

They take one array per parameter, and change all rows with one statement. The result is that of single calls as long as
each is about a different row and none changes its key, which `distribution.calls.runs` ensures. Otherwise the number of
rows differs from that of the calls, or a constraint is violated; the batch is then rolled back and delivered call by
call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rowtide.core.operations import Operation
from rowtide.databases.postgres.quoting import EQUALS, quote, quote_qualified
from rowtide.replication.articles.articles import MAX_NAME_BYTES, Article
from rowtide.replication.targets.postgres.calls import procedures
from rowtide.replication.targets.postgres.calls.procedures import (
    SCHEMA,
    is_generated,
    is_wide,
    parameters_of,
)
from rowtide.replication.targets.postgres.calls.written_table import WrittenTable

_PREFIX_BYTES = len("sp_MSins_")
_PREFIXES = {
    Operation.INSERT: "sp_MSinsarray_",
    Operation.UPDATE: "sp_MSupdarray_",
    Operation.DELETE: "sp_MSdelarray_",
}
"""No procedure for single calls has a name with one of these prefixes, whatever its table's name."""
_OTHERWISE_DELIMITED = "box"
"""Types whose values contain commas, so that array elements are separated by semicolons."""


def creations(article: Article, operation: Operation, table: WrittenTable) -> Sequence[str]:
    """Return the statements that create an operation's array procedure; empty if it has none."""
    if not is_array_generated(article, operation) or table.is_others:
        return []
    parameters = ", ".join(f"{name} {type_text}" for name, type_text, _ in _parameters(article, operation))
    name = quote_qualified(SCHEMA, name_of(article, operation))
    return procedures.creating(article, name, parameters, source(article, operation, table))


def is_array_generated(article: Article, operation: Operation) -> bool:
    """Return whether an operation has one: its single calls are generated, and an update sets more than the key.

    Wide tables have none: their rows are arrays already.
    """
    has_work = operation is not Operation.UPDATE or len(article.columns) > len(article.key_columns)
    return is_generated(article, operation) and has_work and not is_wide(article, operation)


def name_of(article: Article, operation: Operation) -> str:
    """Return the name of an operation's array procedure, derived from that for single calls."""
    rest = article.generated_procedure(operation)[_PREFIX_BYTES:]
    name = _PREFIXES[operation] + rest
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    suffix = f"_{article.article_id.replace('-', '')[:8]}"
    return name.encode()[: MAX_NAME_BYTES - len(suffix)].decode(errors="ignore") + suffix


def source(article: Article, operation: Operation, table: WrittenTable) -> str:
    """Return the body of an operation's array procedure, as the server stores it."""
    parameters = _parameters(article, operation)
    values = {name: f"{name}[g.i]{cast}" for name, _, cast in parameters}
    # An array of the places, since a server takes an array for short, a series for long: it looks rows up by the key.
    count = f"pg_catalog.cardinality({parameters[0][0]})"
    places = f"pg_catalog.unnest(array(select pg_catalog.generate_series(1, {count}))) g (i)"
    raising = procedures.raising(article, operation, ["null"] * len(article.key_columns))
    lines = [
        "#variable_conflict use_variable",
        "declare",
        "    changed bigint;",
        "begin",
        f"    {changing(article, operation, values, places, table)};",
        "    get diagnostics changed = row_count;",
        f"    if changed operator(pg_catalog.<>) {count} then",
        f"        perform {raising};",
        "    end if;",
        "end",
    ]
    return "\n" + "\n".join(lines) + "\n"


def array_call(article: Article, operation: Operation) -> str:
    """Return the statement that calls an operation's array procedure."""
    name = quote_qualified(SCHEMA, name_of(article, operation))
    parameters = enumerate(_parameters(article, operation), 1)
    return f"call {name}({', '.join(f'${number}::{type_text}' for number, (_, type_text, _) in parameters)})"


def _parameters(article: Article, operation: Operation) -> Sequence[tuple[str, str, str]]:
    """Return names and types of the arrays, and the cast of each one's elements.

    Elements have the published types, as in single calls; or text if an array of the type would have more dimensions or
    another syntax.
    """
    value_types = {column.type_text: column.value_type_text for column in article.columns}
    return [
        (name, "text[]", f"::{type_text}")
        if type_text.endswith("[]") or value_types.get(type_text, type_text) == _OTHERWISE_DELIMITED
        else (name, f"{type_text}[]", "")
        for name, type_text in parameters_of(article, operation)
    ]


def changing(
    article: Article, operation: Operation, values: Mapping[str, str], places: str, table: WrittenTable
) -> str:
    """Return the statement that changes several rows; `values` are expressions over what `places`, a relation, has."""
    return _STATEMENTS[operation](article, values, places, table)


def _insert(article: Article, values: Mapping[str, str], places: str, _written: WrittenTable) -> str:
    names = ", ".join(quote(column.name) for column in article.columns)
    given = ", ".join(values[f"c{index}"] for index in range(1, len(article.columns) + 1))
    return f"insert into {_table(article)} ({names}) overriding system value select {given} from {places}"


def _update(article: Article, values: Mapping[str, str], places: str, table: WrittenTable) -> str:
    changes = []
    for index, column in enumerate(article.columns):
        if column.key_ordinal is None:
            name, value = quote(column.name), values[f"c{index + 1}"]
            if "bitmap" in values:
                bit = f"pg_catalog.get_bit({values['bitmap']}, {index})"
                value = f"case when {bit} {EQUALS} 1 then {value} else t.{name} end"
            changes.append(f"{name} = {value}")
    has_key = _key_condition(article, Operation.UPDATE, values, table)
    return f"update {_table(article)} t set {', '.join(changes)} from {places} where {has_key}"


def _delete(article: Article, values: Mapping[str, str], places: str, table: WrittenTable) -> str:
    has_key = _key_condition(article, Operation.DELETE, values, table)
    return f"delete from {_table(article)} t using {places} where {has_key}"


def _key_condition(article: Article, operation: Operation, values: Mapping[str, str], table: WrittenTable) -> str:
    pairs = zip(article.key_columns, procedures.old_key(article, operation), strict=True)
    return " and ".join(table.equals(column, f"t.{quote(column.name)}", values[name]) for column, name in pairs)


def _table(article: Article) -> str:
    return quote_qualified(article.schema, article.table)


_STATEMENTS: Mapping[Operation, Callable[[Article, Mapping[str, str], str, WrittenTable], str]] = {
    Operation.INSERT: _insert,
    Operation.UPDATE: _update,
    Operation.DELETE: _delete,
}
