"""The names of a state as the database has them: tables, subscribers' addresses, absolute places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from rowtide.databases.urls import parse_url
from rowtide.declared.errors import DeclarationImpossible
from rowtide.declared.state import DeclaredObject, State, as_state
from rowtide.declared.values import Plain
from rowtide.storage.places import absolute_lake

_OF_TABLES = frozenset({"table", "child", "parent"})
_NAMED = _OF_TABLES | {"object"}


def settle(url: str, state: State) -> tuple[State, frozenset[str]]:
    """Return a state with the names that the database has, and the names of tables and objects that it does not have.

    Raises `DeclarationImpossible` if two names of the state mean one object.
    """
    database = parse_url(url).kind.load_part("rowtide.declared", "database")
    asked = sorted({name for one in state.values() for name in _tables_of(one)})
    objects = sorted({one.names[-1] for one in state.values() if one.kind.is_text})
    found: Mapping[str, str] = database.spell_tables(url, asked) if asked else {}
    texts: Mapping[str, str] = database.spell_objects(url, objects) if objects else {}
    settled = [_settle(one, texts if one.kind.is_text else found) for one in state.values()]
    twice = [name for name, count in Counter(one.name for one in settled).items() if count > 1]
    if twice:
        raise DeclarationImpossible("; ".join(f"{kind} {'.'.join(names)} is declared twice" for kind, names in twice))
    return as_state(settled), (frozenset(asked) - found.keys()) | (frozenset(objects) - texts.keys())


def find_absent(state: State, missing: frozenset[str]) -> frozenset[str]:
    """Return which tables and objects that are missing objects of a state need."""
    named = (one.names[-1] for one in state.values() if one.kind.is_text)
    return missing.intersection([*named, *(name for one in state.values() for name in _tables_of(one))])


def _tables_of(one: DeclaredObject) -> Iterator[str]:
    yield from (name for role, name in zip(one.kind.named_by, one.names, strict=False) if role in _OF_TABLES)
    if one.kind.table_key is not None:
        yield str(one.options[one.kind.table_key])


def _settle(one: DeclaredObject, tables: Mapping[str, str]) -> DeclaredObject:
    names = [
        tables.get(name, name) if role in _NAMED else name
        for role, name in zip(one.kind.named_by, one.names, strict=True)
    ]
    if one.kind.is_url:
        names[-1] = _ADDRESSES[one.kind.path[0]](names[-1])
    options = {name: _settle_option(one, name, value, tables) for name, value in one.options.items()}
    return replace(one, names=tuple(names), options=options)


def _settle_option(one: DeclaredObject, name: str, value: Plain, tables: Mapping[str, str]) -> Plain:
    if name == one.kind.table_key:
        return tables.get(str(value), value)
    return absolute_lake(str(value)) if name in one.kind.places else value


def _address_of_replication(url: str) -> str:
    from rowtide.replication.targets.kinds import kind_of

    return kind_of(url).address(url)


def _address_of_merge(url: str) -> str:
    from rowtide.merge.nodes.connecting import address

    return address(url)


_ADDRESSES: Mapping[str, Callable[[str], str]] = {
    "replication": _address_of_replication,
    "merge": _address_of_merge,
}
