"""Reading the declared state of a database, planning, and applying a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from rowtide.core.failpoints import failpoint
from rowtide.databases.urls import parse_url
from rowtide.declared.effects import DeclaredChange, Effects
from rowtide.declared.errors import DeclarationImpossible, DeclaredStateChanged, DeclaredTablesMissing
from rowtide.declared.kinds import BY_NAME
from rowtide.declared.naming import find_absent, settle
from rowtide.declared.planning import Action, Plan, make_plan
from rowtide.declared.state import DeclaredObject, State, as_state
from rowtide.handle import Database, connect

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
    """Do what was planned; a repeat of plan and call completes an interrupted one.

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
    return parse_url(url).kind.load_part("rowtide.declared", "database")
