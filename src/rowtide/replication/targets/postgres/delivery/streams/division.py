"""Divide a batch's calls among streams, so that calls that depend on each other stay in one, in log order. Pure.

Calls depend on each other if they are about the same row, if one takes away a value of a unique index that another
brings, or if one changes a key that another's foreign key refers to. What the arguments do not say counts as any value.
A division that is wrong cannot go unnoticed: the two calls need the same lock, which the stream that runs the first
keeps until all streams are prepared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import field
from enum import Enum

from rowtide.core.operations import Operation
from rowtide.core.values import frozen
from rowtide.replication.articles.articles import Article
from rowtide.replication.articles.call_formats import ArgumentGroup, parts_of
from rowtide.replication.distribution.calls.arguments import Arguments
from rowtide.replication.distribution.calls.ordered import ProcedureCall


class Unknown(Enum):
    """What stands for values that the arguments do not have."""

    VALUES = "unknown"


Values = tuple[bytes | None, ...]
Side = Values | Unknown | None
"""Values of some columns; None: the call changes none of them on this side."""


@frozen
class Touched:
    """The values of some columns before a call, which it takes away, and after it."""

    before: Side
    after: Side


NOTHING = Touched(None, None)


class ColumnReader:
    """Reads some columns of one article from the arguments of one operation; `columns` are indexes in the row."""

    def __init__(self, article: Article, operation: Operation, columns: Sequence[int]) -> None:
        self._operation = operation
        self._columns = tuple(columns)
        starts: dict[ArgumentGroup, int] = {}
        length = 0
        for part in parts_of(operation, article.command(operation).call_format):
            starts[part] = length
            length += len(article.key_columns) if part is ArgumentGroup.OLD_KEY else len(article.columns)
        in_key = {article.columns.index(column): index for index, column in enumerate(article.key_columns)}
        # Where an old value is: in the old row, or in the old key.
        old, old_key = starts.get(ArgumentGroup.OLD), starts.get(ArgumentGroup.OLD_KEY)
        if old is not None:
            self._old: tuple[int | None, ...] = tuple(old + column for column in self._columns)
        elif old_key is not None:
            self._old = tuple(old_key + in_key[column] if column in in_key else None for column in self._columns)
        else:
            self._old = (None,) * len(self._columns)
        self._new, self._changed = starts.get(ArgumentGroup.NEW), starts.get(ArgumentGroup.CHANGED)
        self._bitmap = starts.get(ArgumentGroup.BITMAP)

    def read(self, arguments: Arguments) -> Touched:
        """Return the values that a call changes."""
        match self._operation:
            case Operation.INSERT:
                return Touched(None, self._after(arguments, self._columns))
            case Operation.DELETE:
                return Touched(self.read_old(arguments), None)
            case _:
                return self._read_update(arguments)

    def read_old(self, arguments: Arguments) -> Side:
        """Return the values before an update or a delete, changed or not."""
        values = tuple(arguments[index] for index in self._old if index is not None)
        return values if len(values) == len(self._columns) else Unknown.VALUES

    def _read_update(self, arguments: Arguments) -> Touched:
        changed = self._columns
        if self._bitmap is not None:
            bits = arguments[self._bitmap]
            assert bits is not None
            changed = tuple(column for column in self._columns if _is_set(bits, column))
            if not changed:
                return NOTHING
        before, after = self.read_old(arguments), self._after(arguments, changed)
        return NOTHING if before == after and before is not Unknown.VALUES else Touched(before, after)

    def _after(self, arguments: Arguments, changed: Sequence[int]) -> Side:
        if self._new is not None:
            return tuple(arguments[self._new + column] for column in self._columns)
        assert self._changed is not None
        values: list[bytes | None] = []
        for column, old in zip(self._columns, self._old, strict=True):
            if column in changed:
                values.append(arguments[self._changed + column])
            elif old is not None:
                values.append(arguments[old])
            else:
                return Unknown.VALUES
        return tuple(values)


def _is_set(bits: bytes, column: int) -> bool:
    """Return whether a bitmap, `\\x` and hexadecimal digits, has a column's bit."""
    digits = 2 + column // 8 * 2
    return bool(int(bits[digits : digits + 2], 16) >> column % 8 & 1)


_Node = tuple[object, ...]


@frozen
class Unique:
    """A unique index of an article's table besides its key; `columns` None: those of a call are not known."""

    index: int
    columns: tuple[str, ...] | None
    nulls_collide: bool = False


@frozen
class ArticleForeignKey:
    """A foreign key between two articles' tables, by article id."""

    constraint: int
    referencing: str
    columns: tuple[str, ...]
    referenced: str
    key: tuple[str, ...]


@frozen
class SubscriberRules:
    """What decides at a subscriber which calls depend on each other, by article id.

    `divisible`: articles whose calls have no effects but those on their own rows. `acting`: articles whose deletes and
    key updates a foreign key's action passes on.
    """

    divisible: Set[str]
    acting: Set[str] = frozenset()
    uniques: Mapping[str, Sequence[Unique]] = field(default_factory=dict)
    references: Sequence[ArticleForeignKey] = ()

    @property
    def are_of_rows(self) -> bool:
        """Whether calls depend on each other only if they are about the same row."""
        return not (self.acting or any(self.uniques.values()) or self.references)


class Division:
    """Divides batches by the rules of one subscriber."""

    def __init__(self, rules: SubscriberRules) -> None:
        self.is_of_rows = rules.are_of_rows
        self._rules = rules
        self._readers: dict[tuple[str, Operation], _CallReader] = {}

    def is_divisible(self, call: ProcedureCall) -> bool:
        """Return whether a call may run beside others; a batch with one that may not runs on one connection."""
        article_id, operation = call.article.article_id, call.operation
        if article_id not in self._rules.divisible or operation is Operation.TRUNCATE:
            return False
        if operation is Operation.INSERT or article_id not in self._rules.acting:
            return True
        key = self._reader(call.article, operation).key
        return operation is Operation.UPDATE and key is not None and key.read(call.arguments).before is None

    def assign(self, calls: Sequence[ProcedureCall], streams: int) -> Sequence[int]:
        """Return each call's stream, from 0; fewer than `streams` if the calls depend on each other."""
        components = _Components()
        touches = [self._reader(call.article, call.operation).read(call) for call in calls]
        values = _ChangedValues.of(touches)
        owners = [components.join(values.nodes(touched)) for touched in touches]
        roots = [components.find(owner) for owner in owners]
        sizes: dict[int, int] = {}
        for root in roots:
            sizes[root] = sizes.get(root, 0) + 1
        load = [0] * streams
        chosen: dict[int, int] = {}
        for root, size in sizes.items():
            # Calls that depend on each other go to the stream that has the fewest so far.
            chosen[root] = load.index(min(load))
            load[chosen[root]] += size
        return [chosen[root] for root in roots]

    def _reader(self, article: Article, operation: Operation) -> _CallReader:
        known = (article.article_id, operation)
        reader = self._readers.get(known)
        if reader is None:
            reader = self._readers[known] = _CallReader(article, operation, self._rules)
        return reader


@frozen
class _SharedValue:
    """Where values of rows meet: a key, a unique index, or either side of a foreign key."""

    kind: str
    identity: object
    nulls_collide: bool = False


_KEY, _UNIQUE, _REFERRING, _REFERRED = "key", "unique", "referring", "referred"
_Touches = list[tuple[_SharedValue, Touched]]
_ANY = Touched(Unknown.VALUES, Unknown.VALUES)


class _CallReader:
    """Reads what the calls of one article and operation touch."""

    def __init__(self, article: Article, operation: Operation, rules: SubscriberRules) -> None:
        self._article, self._operation = article, operation
        self._row = _SharedValue(_KEY, article.article_id)
        self.key = self._columns(tuple(column.name for column in article.key_columns)) if article.key_columns else None
        self._shared_values = list(self._find_indexes(rules))

    def read(self, call: ProcedureCall) -> _Touches:
        """Return what a call touches; the key of its row first."""
        found: _Touches = []
        if self.key is not None:
            found.append((self._row, self._read_key(call)))
        for shared, reader in self._shared_values:
            touched = _ANY if reader is None else reader.read(call.arguments)
            if touched.before is not None or touched.after is not None:
                found.append((shared, touched))
        return found

    def _read_key(self, call: ProcedureCall) -> Touched:
        """Return the keys of the row before and after, also where the call does not change it."""
        assert self.key is not None
        touched = self.key.read(call.arguments)
        if touched.before is None and self._operation is not Operation.INSERT:
            return Touched(self.key.read_old(call.arguments), None)
        return touched

    def _find_indexes(self, rules: SubscriberRules) -> Iterator[tuple[_SharedValue, ColumnReader | None]]:
        article_id = self._article.article_id
        for unique in rules.uniques.get(article_id, ()):
            shared = _SharedValue(_UNIQUE, unique.index, unique.nulls_collide)
            yield shared, None if unique.columns is None else self._columns(unique.columns)
        for reference in rules.references:
            if reference.referencing == article_id:
                yield _SharedValue(_REFERRING, reference.constraint), self._columns(reference.columns)
            if reference.referenced == article_id:
                yield _SharedValue(_REFERRED, reference.constraint), self._columns(reference.key)

    def _columns(self, names: Sequence[str]) -> ColumnReader | None:
        indexes = {column.name: index for index, column in enumerate(self._article.columns)}
        if not indexes.keys() >= set(names):
            return None
        return ColumnReader(self._article, self._operation, [indexes[name] for name in names])


class _ChangedValues:
    """What a batch does to each shared value, which decides whose values join calls."""

    def __init__(self) -> None:
        self._brought: set[object] = set()
        self._pinned: set[tuple[str, object]] = set()
        self._referred: dict[object, set[Values]] = {}

    @classmethod
    def of(cls, calls: Sequence[_Touches]) -> _ChangedValues:
        """Read a batch."""
        found = cls()
        unknown_uniques: set[object] = set()
        takes, unknown_referring, unknown_referred = set[object](), set[tuple[object, bool]](), set[object]()
        for touches in calls:
            for shared, touched in touches:
                is_unknown = Unknown.VALUES in (touched.before, touched.after)
                match shared.kind:
                    case "unique":
                        if touched.after is not None:
                            found._brought.add(shared.identity)
                        if is_unknown:
                            unknown_uniques.add(shared.identity)
                    case "referring" if is_unknown:
                        unknown_referring.add((shared.identity, touched.after is Unknown.VALUES))
                    case "referred":
                        known = found._referred.setdefault(shared.identity, set())
                        known.update(value for value in (touched.before, touched.after) if isinstance(value, tuple))
                        if touched.before is not None:
                            takes.add(shared.identity)
                        if is_unknown:
                            unknown_referred.add(shared.identity)
        found._pinned |= {(_UNIQUE, index) for index in unknown_uniques & found._brought}
        found._pinned |= {(_REFERRED, constraint) for constraint in unknown_referred}
        found._pinned |= {
            (_REFERRED, constraint)
            for constraint, is_use in unknown_referring
            if constraint in takes or (is_use and constraint in found._referred)
        }
        return found

    def nodes(self, touches: _Touches) -> Iterator[_Node]:
        """Yield what joins a call to others that yield the same."""
        for shared, touched in touches:
            if shared.kind == _KEY:
                for value in (touched.before, touched.after):
                    if value is not None:
                        yield shared.identity, value
            elif shared.kind == _UNIQUE:
                yield from self._unique_nodes(shared, touched)
            else:
                yield from self._reference_nodes(shared, touched)

    def _unique_nodes(self, shared: _SharedValue, touched: Touched) -> Iterator[_Node]:
        if (_UNIQUE, shared.identity) in self._pinned:
            yield _UNIQUE, shared.identity
            return
        # No call of the batch writes a value here: values that are only removed collide with none.
        if shared.identity not in self._brought:
            return
        for value in (touched.before, touched.after):
            if isinstance(value, tuple) and (shared.nulls_collide or None not in value):
                yield _UNIQUE, shared.identity, value

    def _reference_nodes(self, shared: _SharedValue, touched: Touched) -> Iterator[_Node]:
        referred = self._referred.get(shared.identity)
        if referred is None:
            # No call changes a key that is referred to.
            return
        if (_REFERRED, shared.identity) in self._pinned:
            yield _REFERRED, shared.identity
            return
        for value in (touched.before, touched.after):
            if isinstance(value, tuple) and value in referred:
                yield _REFERRED, shared.identity, value


class _Components:
    """Connected components of calls (union-find)."""

    def __init__(self) -> None:
        self._parents: list[int] = []
        self._owners: dict[_Node, int] = {}

    def join(self, nodes: Iterator[_Node]) -> int:
        """Return the component of a call with these nodes; one of its own if it has none."""
        root: int | None = None
        for node in nodes:
            owner = self._owners.get(node)
            if owner is None:
                if root is None:
                    root = self._add()
                self._owners[node] = root
            else:
                other = self.find(owner)
                if root is not None and other != root:
                    self._parents[root] = other
                root = other
        return self._add() if root is None else root

    def find(self, component: int) -> int:
        """Return the component's representative."""
        parents = self._parents
        while parents[component] != component:
            # Path halving: later searches are shorter.
            parents[component] = parents[parents[component]]
            component = parents[component]
        return component

    def _add(self) -> int:
        self._parents.append(len(self._parents))
        return len(self._parents) - 1
