"""Declared state: objects of some kinds with their options, and the plan that makes a database what a file declares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any

from rowtide.core.values import frozen
from rowtide.declared.errors import DeclarationImpossible
from rowtide.declared.kinds import (
    ARTICLE,
    BY_NAME,
    CAPTURE,
    DISTRIBUTION,
    KINDS,
    MERGE_ARTICLE,
    MERGE_FILTER,
    MERGE_SUBSCRIPTION,
    PUBLICATION,
    RULE,
    SUBSCRIPTION,
    Kind,
)
from rowtide.declared.values import Plain
from rowtide.handle import Database

ObjectName = tuple[str, tuple[str, ...]]
"""The kind of an object, its containers' names, and its own."""


@frozen
class DeclaredObject:
    """An object: its names, containers' first, and its options as TOML has them, without defaults.

    `implied` are values of options that are not there because they follow from others: a file may have them as well.
    `tolerated` are options that a file may omit without a difference; `always` are the columns that are among the
    others even if they are not named.
    """

    kind: Kind
    names: tuple[str, ...]
    options: Mapping[str, Plain] = field(default_factory=dict)
    implied: Mapping[str, Plain] = field(default_factory=dict)
    tolerated: frozenset[str] = frozenset()
    always: frozenset[str] = frozenset()

    @property
    def name(self) -> ObjectName:
        """Its identity among objects of its kind."""
        return self.kind.name, self.names

    @property
    def container(self) -> ObjectName | None:
        """The name of the object that contains it."""
        kind = self.kind.container
        return None if kind is None else (kind.name, self.names[:-1])

    @property
    def label(self) -> str:
        """Its name in sentences."""
        return f"{self.kind.name} {'.'.join(self.names)}".rstrip()

    def value(self, option: str) -> Plain | None:
        """Return an option's value, or its default."""
        return self.options.get(option, self.kind.default_of(self.names, option))

    def arguments(self) -> dict[str, Any]:
        """Return the values of its options as the methods take them; those that are not given are not there."""
        given = {name: self.kind.keys[name].type.read(value) for name, value in self.options.items()}
        return dict(zip(self.kind.named_by, self.names, strict=False)) | given


State = Mapping[ObjectName, DeclaredObject]


def describe(
    kind: Kind,
    names: Iterable[str],
    values: Mapping[str, Any],
    *,
    implied: Mapping[str, Any] | None = None,
    tolerated: Iterable[str] = (),
    always: Iterable[str] = (),
) -> DeclaredObject:
    """Return an object with the values that its options have; None and defaults are omitted."""
    own = tuple(names)
    options = {name: value for name, value in _write(kind, values) if value != kind.default_of(own, name)}
    return DeclaredObject(
        kind, own, options, dict(_write(kind, implied or {})), frozenset(tolerated), frozenset(always)
    )


def as_state(objects: Iterable[DeclaredObject]) -> State:
    """Return objects by their names, in the order of a file."""
    order = {kind.name: index for index, kind in enumerate(KINDS)}
    listed = sorted(objects, key=lambda one: (order[one.kind.name], one.names))
    return {one.name: one for one in listed}


def list_of(state: State, kind: Kind) -> Iterator[DeclaredObject]:
    """Yield the objects of one kind."""
    return (one for one in state.values() if one.kind is kind)


def kind_of(name: ObjectName) -> Kind:
    """Return an object's kind."""
    return BY_NAME[name[0]]


def _write(kind: Kind, values: Mapping[str, Any]) -> Iterator[tuple[str, Plain]]:
    for name, value in values.items():
        if value is not None:
            yield name, kind.keys[name].type.write(value)


@frozen
class DeclaredChange:
    """An object as it is and as it is to be, and the options that differ."""

    present: DeclaredObject
    wanted: DeclaredObject
    options: Sequence[str]

    def arguments(self) -> dict[str, Any]:
        """Return the options that differ as a method takes them, None for those without a value."""
        given = self.wanted.arguments()
        return {name: given.get(name, self._default(name)) for name in self.options}

    def _default(self, name: str) -> object:
        value, kind = self.wanted.value(name), self.wanted.kind
        return None if value is None else kind.keys[name].type.read(value)


@frozen
class Effects:
    """How objects of one kind are added, changed and dropped; `add` also gets the whole declared state."""

    add: Callable[[Database, DeclaredObject, State], object]
    change: Callable[[Database, DeclaredChange], object]
    drop: Callable[[Database, DeclaredObject], object]


def refuse(*_given: object) -> None:
    """Stand in for what no plan does with a kind of objects."""
    raise AssertionError("no plan does this")


def nothing(*_given: object) -> None:
    """Stand in for what needs no call of its own."""


class Action(StrEnum):
    """The action of a step."""

    ADD = "add"
    CHANGE = "change"
    RECREATE = "recreate"
    """It is dropped and added again, since the option cannot be changed."""
    LEAVE = "leave"
    DROP = "drop"


@frozen
class PlannedStep:
    """A step for one object: `changes` are the options that differ, `lost` is what cannot be undone."""

    action: Action
    kind: str
    name: str
    changes: tuple[str, ...] = ()
    lost: str | None = None
    note: str | None = None


@frozen
class Plan:
    """The steps, with the objects as they are (`present`) and as they are to be (`wanted`)."""

    steps: tuple[PlannedStep, ...]
    actions: Mapping[ObjectName, Action]
    changed: Mapping[ObjectName, tuple[str, ...]]
    present: State
    wanted: State

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return all(action is Action.LEAVE for action in self.actions.values())

    @property
    def lost(self) -> tuple[str, ...]:
        """What is lost by making objects again."""
        return tuple(
            f"{step.kind} {step.name}: {step.lost}"
            for step in self.steps
            if step.action is Action.RECREATE and step.lost
        )

    def removals(self) -> tuple[DeclaredObject, ...]:
        """Return the objects that are dropped, for good or to be added again, in the order of dropping."""
        chosen = [name for name, action in self.actions.items() if action in (Action.DROP, Action.RECREATE)]
        ordered = _in_order(self.present, chosen)
        return tuple(self.present[name] for name in reversed(ordered) if not kind_of(name).is_part)

    def additions(self) -> tuple[DeclaredObject, ...]:
        """Return the objects that are added or changed, in this order."""
        chosen = [name for name, action in self.actions.items() if action not in (Action.DROP, Action.LEAVE)]
        return tuple(self.wanted[name] for name in _in_order(self.wanted, chosen))


def make_plan(present: State, wanted: State, *, prunes: bool, owned: Iterable[ObjectName] = ()) -> Plan:
    """Return the plan; `owned` are present objects that declared ones have made, which are not pruned.

    Raises `DeclarationImpossible`.
    """
    changed = {name: tuple(find_differences(present[name], wanted[name])) for name in wanted.keys() & present.keys()}
    actions: dict[ObjectName, Action] = {}
    made = frozenset(owned)
    for name in wanted:
        actions[name] = Action.ADD if name not in present else _judge(wanted[name], changed[name])
    for name in present.keys() - wanted.keys():
        is_kept = not prunes or kind_of(name).is_kept or name in made or _is_needed(name, present, wanted)
        actions[name] = Action.LEAVE if is_kept else Action.DROP
    reasons = [*_find_impossible(present, wanted, changed), *_find_missing(wanted, actions)]
    while further := _find_consequences(present, wanted, actions):
        actions |= further
    reasons += [] if prunes else _find_undeclared(present, wanted, actions)
    reasons += _find_undecided(present, wanted, actions)
    if reasons:
        raise DeclarationImpossible("; ".join(reasons))
    order = _in_order({**present, **wanted}, actions)
    steps = tuple(_as_step(name, actions[name], changed.get(name, ()), present, wanted) for name in order)
    return Plan(steps, {name: actions[name] for name in order}, changed, present, wanted)


def find_differences(present: DeclaredObject, wanted: DeclaredObject) -> Iterator[str]:
    """Yield the options in which a declared object differs from the present one."""
    kind = present.kind
    for name in kind.keys:
        if name in kind.once:
            continue
        now, then = present.value(name), wanted.value(name)
        is_left_out = name not in wanted.options and name in present.tolerated
        known = [now, present.implied[name]] if name in present.implied and name in wanted.options else [now]
        if not is_left_out and not any(_is_equal(present, name, one, then) for one in known):
            yield name


def _is_equal(present: DeclaredObject, option: str, one: Plain | None, other: Plain | None) -> bool:
    if option in present.kind.unordered and isinstance(one, list) and isinstance(other, list):
        return present.always.union(one) == present.always.union(other)
    return one == other


def _judge(wanted: DeclaredObject, changed: tuple[str, ...]) -> Action:
    if not changed:
        return Action.LEAVE
    return Action.CHANGE if all(_is_changeable(wanted, option) for option in changed) else Action.RECREATE


def _is_changeable(wanted: DeclaredObject, option: str) -> bool:
    """Whether an option can be set in place; methods that change objects take None for an option that stays."""
    kind = wanted.kind
    return option in kind.changeable and (wanted.value(option) is not None or option in kind.clearable)


def _find_consequences(present: State, wanted: State, actions: Mapping[ObjectName, Action]) -> dict[ObjectName, Action]:
    """Return the actions that others have as their consequence, and that are not there yet."""
    further: dict[ObjectName, Action] = {}
    for name, action in actions.items():
        if name not in present or action not in (Action.RECREATE, Action.DROP):
            continue
        for other in present.values():
            consequence = _find_consequence(present[name], action, other, wanted)
            before = actions.get(other.name)
            if consequence is not None and _RANK[consequence] > _RANK[before or Action.LEAVE]:
                further[other.name] = consequence
    return further


_RANK = {Action.LEAVE: 0, Action.ADD: 0, Action.CHANGE: 1, Action.RECREATE: 2, Action.DROP: 3}


def _find_consequence(gone: DeclaredObject, action: Action, other: DeclaredObject, wanted: State) -> Action | None:
    if gone.kind.is_part and other.name == gone.container:
        return Action.RECREATE if other.name in wanted else None
    is_subscribed = gone.kind is MERGE_ARTICLE and other.kind is MERGE_SUBSCRIPTION and gone.names[0] == other.names[0]
    # A table that leaves a publication is tracked for its subscribers until they have uploaded.
    if other.container == gone.name or (is_subscribed and action is Action.RECREATE):
        return Action.RECREATE if other.name in wanted else Action.DROP
    if action is not Action.RECREATE or not _has_reference(other, gone):
        return None
    if other.name not in wanted:
        return Action.DROP
    can_follow = any(option in other.kind.changeable for option in other.kind.references)
    return Action.CHANGE if can_follow else Action.RECREATE


def _has_reference(one: DeclaredObject, other: DeclaredObject) -> bool:
    """Whether an object names another one: a consumer an instance, a join filter its parent."""
    named = (one.options.get(option, []) for option, kind in one.kind.references.items() if kind == other.kind.name)
    is_named = any(isinstance(names, list) and other.names[-1] in names for names in named)
    return is_named or (one.kind is MERGE_FILTER and _parent_of(one) == other.name)


def _parent_of(join: DeclaredObject) -> ObjectName:
    return MERGE_ARTICLE.name, (join.names[0], join.names[2])


def _find_impossible(present: State, wanted: State, changed: Mapping[ObjectName, tuple[str, ...]]) -> Iterator[str]:
    for name, options in changed.items():
        for option in options:
            kind, one = kind_of(name), wanted[name]
            if kind.fixed and not _is_changeable(one, option):
                now, then = _show(present[name].value(option)), _show(one.value(option))
                yield f"{one.label} has {option} {now}, not {then}: {kind.fixed.get(option, 'it cannot be unset')}"


def _is_needed(name: ObjectName, present: State, wanted: State) -> bool:
    """Whether an undeclared object stays: capture with declared instances, or publications that read its log."""
    is_captured = any(kind_of(one).path[0] == "cdc" for one in wanted)
    is_read = any(kind_of(one) is PUBLICATION for one in wanted.keys() & present.keys())
    return name[0] == CAPTURE.name and (is_captured or is_read)


def _find_missing(wanted: State, actions: Mapping[ObjectName, Action]) -> Iterator[str]:
    """Yield what declared objects need, and what is not there afterwards."""
    kinds = {kind_of(name).name for name in wanted}
    if DISTRIBUTION.name in kinds and PUBLICATION.name not in kinds:
        yield "the file declares where replication has its data, and no publication"
    is_captured = actions.get((CAPTURE.name, ()), Action.DROP) is not Action.DROP
    if is_captured and {"lake", "log_store"} & wanted.get((DISTRIBUTION.name, ()), _NOTHING).options.keys():
        yield "replication has its log where capture has it: declare lake and log_store for cdc alone"
    for one in list_of(wanted, ARTICLE):
        if one.options.keys() >= {"script", "script_python"}:
            yield f"{one.label} has both script and script_python"
    for one in wanted.values():
        container = one.container
        if container is not None and container not in wanted:
            yield f"{one.label} is in a {container[0]} that the file does not declare"
        for option, kind_name in one.kind.references.items():
            named = one.options.get(option, [])
            for name in named if isinstance(named, list) and RULE.name not in kinds else []:
                if actions.get((kind_name, (name,)), Action.DROP) is Action.DROP:
                    yield f"{one.label} names {kind_name} {name}, which is neither declared nor there"


_NOTHING = DeclaredObject(DISTRIBUTION, ())


def _find_undeclared(present: State, wanted: State, actions: Mapping[ObjectName, Action]) -> Iterator[str]:
    """Yield the undeclared objects that would go with others that are made again, though nothing is to be pruned."""
    for name, action in actions.items():
        if action is Action.DROP and name not in wanted:
            yield f"{present[name].label} is not declared, and would go with what is made again: declare it, or --prune"


def _find_undecided(present: State, wanted: State, actions: Mapping[ObjectName, Action]) -> Iterator[str]:
    """Yield what is made again without a word on the tables that subscribers have."""
    subscribed = {one.names[0] for one in present.values() if one.kind is SUBSCRIPTION}
    for name, action in actions.items():
        if action is not Action.RECREATE or (name[0] == ARTICLE.name and name[1][0] not in subscribed):
            continue
        option, words = _DECISIONS.get(name[0], ("", ""))
        if option and option not in wanted[name].options:
            yield f"{wanted[name].label} is made again, where subscribers have the tables: declare {option} = {words}"


_KEPT = '"drop", "truncate", "delete" or "keep"'
_DECISIONS = {
    ARTICLE.name: ("if_exists", _KEPT),
    SUBSCRIPTION.name: ("if_exists", _KEPT),
    MERGE_SUBSCRIPTION.name: ("existing", '"keep" or "overwrite"'),
}


def _in_order(state: State, chosen: Iterable[ObjectName]) -> list[ObjectName]:
    """Return objects in the order in which they can be added."""
    places = {kind.name: index for index, kind in enumerate(KINDS)}
    return sorted(chosen, key=lambda name: (places[name[0]], _generation(state, name), name[1]))


def _generation(state: State, name: ObjectName) -> int:
    """Return how many articles a merge article follows by join filters: it is dropped before those."""
    if name[0] != MERGE_ARTICLE.name:
        return 0
    met, level, generation = {name}, {name}, 0
    while level:
        joins = [one for one in state.values() if one.kind is MERGE_FILTER and one.container in level]
        level = {_parent_of(join) for join in joins} - met
        met |= level
        generation += bool(level)
    return generation


def _as_step(name: ObjectName, action: Action, changed: tuple[str, ...], present: State, wanted: State) -> PlannedStep:
    kind = kind_of(name)
    lost: Mapping[Any, str] = {Action.RECREATE: kind.loses, Action.DROP: kind.drops}
    changes = tuple(_describe(present[name], wanted[name], option) for option in changed)
    note = kind.starts if action is Action.ADD else None
    return PlannedStep(action, kind.name, ".".join(name[1]), changes, lost.get(action) or None, note or None)


def _describe(present: DeclaredObject, wanted: DeclaredObject, option: str) -> str:
    now, then = (_show(one.value(option)) for one in (present, wanted))
    return f"{option}: {now} -> {then}"


def _show(value: Plain | None) -> str:
    match value:
        case None:
            return "none"
        case list():
            return ", ".join(value)
        case dict():
            return ", ".join(f"{name}={text}" for name, text in value.items())
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)
