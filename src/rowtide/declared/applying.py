"""Reading the declared state of a database, planning, and applying a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

from rowtide.core.failpoints import failpoint
from rowtide.databases.urls import parse_url
from rowtide.declared.errors import DeclarationImpossible, DeclaredStateChanged, DeclaredTablesMissing
from rowtide.declared.kinds import BY_NAME
from rowtide.declared.planning import Action, DeclaredChange, DeclaredObject, Effects, Plan, State, as_state, make_plan
from rowtide.declared.values import Plain
from rowtide.handle import Database, connect
from rowtide.storage.places import absolute_lake

_OF_TABLES = frozenset({"table", "child", "parent"})
_NAMED = _OF_TABLES | {"object"}


def settle(url: str, state: State) -> tuple[State, frozenset[str]]:
    """Return a state with the names that the database has, and the names of tables and objects that it does not have.

    Raises `DeclarationImpossible` if two names of the state mean one object.
    """
    database = parse_url(url).kind.load_part("rowtide.declared")
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


StepDone = Callable[[str, DeclaredObject], None]


def read_state(url: str) -> State:
    """Return what rowtide does in a database. Raises what connecting raises, and `DatabaseCopied`."""
    with connect(url) as database:
        found = as_state(one for module in _load_features(url) for one in module.read(database))
    return settle(url, found)[0]


def plan(url: str, wanted: State, *, prunes: bool = False) -> Plan:
    """Return what makes a database what is declared.

    Raises `DeclarationImpossible`, `DeclaredTablesMissing`, and as `read_state`.
    """
    _require_offered(url, wanted)
    present = read_state(url)
    settled, missing = settle(url, wanted)
    planned = make_plan(present, settled, prunes=prunes, owned=_find_owned(url, present, settled))
    absent = find_absent({one.name: one for one in planned.additions()}, missing)
    if absent:
        raise DeclaredTablesMissing(", ".join(sorted(absent)))
    return planned


def apply(url: str, planned: Plan, on_done: StepDone = lambda _what, _one: None) -> None:
    """Carry out a plan; planning and calling it again completes an interrupted one.

    Raises `DeclaredStateChanged` if the database is not what it was for the plan, `LeaseHeld` or `ApplyRunning` while
    another process applies, and what the methods raise.
    """
    effects = _load_effects(url)
    with _load_database(url).applying_alone(url), connect(url) as database:
        _require_same(planned.present, read_state(url))
        for one in planned.removals():
            failpoint("declared_removal.before")
            effects[one.kind.name].drop(database, one)
            failpoint("declared_removal.after")
            on_done("dropped", one)
        for one in planned.additions():
            failpoint("declared_addition.before")
            done = _add_or_change(database, effects[one.kind.name], one, planned)
            failpoint("declared_addition.after")
            on_done(done, one)


def _add_or_change(database: Database, effects: Effects, one: DeclaredObject, planned: Plan) -> str:
    if planned.actions[one.name] is Action.CHANGE:
        effects.change(database, DeclaredChange(planned.present[one.name], one, planned.changed[one.name]))
        return "changed"
    effects.add(database, one, planned.wanted)
    return "added"


def _require_same(before: State, now: State) -> None:
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if names:
        raise DeclaredStateChanged(", ".join(f"{kind} {'.'.join(own)}".rstrip() for kind, own in names))


def _require_offered(url: str, wanted: State) -> None:
    """Raise `DeclarationImpossible` for features that databases of this kind do not have."""
    offered = _load_effects(url)
    lacking = sorted({BY_NAME[kind].path[0] for kind, _ in wanted if kind not in offered})
    if lacking:
        raise DeclarationImpossible(f"databases of the kind {parse_url(url).kind} have no {' and no '.join(lacking)}")


def _find_owned(url: str, present: State, wanted: State) -> Iterator[Any]:
    for module in _load_features(url):
        if hasattr(module, "find_owned"):
            yield from module.find_owned(present, wanted)


def _load_effects(url: str) -> Mapping[str, Effects]:
    return {name: effects for module in _load_features(url) for name, effects in module.EFFECTS.items()}


def _load_features(url: str) -> tuple[Any, ...]:
    return tuple(import_module(f"rowtide.declared.{name}") for name in _load_database(url).FEATURES)


def _load_database(url: str) -> Any:
    return parse_url(url).kind.load_part("rowtide.declared")
