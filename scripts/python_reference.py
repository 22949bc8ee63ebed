"""Prints docs/reference/python.md from the docstrings of the public API, as `make python-reference` keeps it."""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import rowtide
import rowtide.tracking.spark
from rowtide import CheckResult, CommitLsn, Database, Measure, ValidityInterval, Window
from rowtide.cdc import (
    ArrowChanges,
    BeforeImages,
    ChangeDataCapture,
    Changes,
    CleanupOrder,
    DatabaseToEnable,
    JobParameters,
    Lake,
    NewConsumer,
    NewInstance,
    TablesToEnable,
)
from rowtide.core.options import Argument, Option
from rowtide.merge import (
    MergeArticleChanges,
    MergePublicationChanges,
    MergeReplication,
    NewMergeArticle,
    NewMergePublication,
    NewMergeSubscription,
    Partition,
    PartitionOptions,
    SubscriberType,
    Winner,
)
from rowtide.replication import (
    ArticleChange,
    Constraints,
    IfExists,
    KeyUpdates,
    MovedPartitions,
    NewArticle,
    NewPublication,
    RequestedSubscription,
    RowRepair,
    RowValidation,
    SubscriptionSettings,
    SyncType,
    TransactionalReplication,
)
from rowtide.targets import (
    CustomTarget,
    CustomWindow,
    ListedTarget,
    NewTarget,
    SetVersion,
    TableState,
    TableVersion,
    TargetFormat,
    Targets,
    Truncation,
)
from rowtide.tracking import (
    ChangeTracking,
    PurgeType,
    StampIndex,
    Storage,
    TrackingKeyType,
    TrackingOptions,
    TrackingRequest,
)
from rowtide.tracking.spark import ChangeFrames, read_changes

HEAD = """# Python API

Every command of a feature is also a method. `rowtide.connect(url)` returns a handle; each feature is an
attribute of it: `cdc`, `targets`, `replication`, `merge` and `tracking`.

```python
import rowtide

with rowtide.connect("postgresql://user@host/shop") as database:
    interval = database.cdc.get_validity_interval("public_orders")
    changes = database.cdc.get_all_changes("public_orders", interval.low, interval.high)
```

Options may be named as on the command line, too: `enable_table(…, role="readers")`, as `--role`, is `role_name`.
Members of enumerations may be given as its words, `format="iceberg"`, or as SQL Server's numbers (else RT-1141).
Arguments named `spark` take your `SparkSession`; without one rowtide starts its own. Errors are subclasses of
`rowtide.RowtideError`, by kind: `NotFound`, `AlreadyExists`, `Invalid`, `Denied`, `Retryable` and `DataLoss`, all in
`rowtide`. Each has a `number`; all are in `rowtide.errors` ([their numbers and names](errors.md)).
What methods take and return is imported from `rowtide` or the feature's package, as `rowtide.cdc`. This page is
generated from the docstrings by `scripts/python_reference.py`."""

WIDTH = 100


@dataclass(frozen=True, slots=True)
class Section:
    """A class of the page: what a reader calls an instance of it, and the types that its methods take and return."""

    title: str
    name: str
    subject: type
    types: tuple[type, ...] = ()
    is_made_by_the_caller: bool = False
    """Else it is the handle, or an attribute of it."""


SECTIONS = (
    Section("The handle", "database", Database, (CheckResult, Measure)),
    Section(
        "Change data capture",
        "cdc",
        ChangeDataCapture,
        (
            DatabaseToEnable,
            NewInstance,
            TablesToEnable,
            NewConsumer,
            BeforeImages,
            JobParameters,
            CleanupOrder,
            ValidityInterval,
            Window,
            CommitLsn,
        ),
    ),
    Section(
        "Targets",
        "targets",
        Targets,
        (
            NewTarget,
            TargetFormat,
            Truncation,
            ListedTarget,
            SetVersion,
            TableVersion,
            TableState,
            CustomTarget,
            CustomWindow,
        ),
    ),
    Section("A lake without Spark", "lake", Lake, (ArrowChanges,)),
    Section("A lake in Spark, without the database", "Changes", Changes, is_made_by_the_caller=True),
    Section(
        "Transactional replication",
        "replication",
        TransactionalReplication,
        (
            NewPublication,
            NewArticle,
            ArticleChange,
            RowValidation,
            RowRepair,
            KeyUpdates,
            MovedPartitions,
            RequestedSubscription,
            SyncType,
            IfExists,
            Constraints,
            SubscriptionSettings,
        ),
    ),
    Section(
        "Merge replication",
        "merge",
        MergeReplication,
        (
            NewMergePublication,
            MergePublicationChanges,
            NewMergeArticle,
            MergeArticleChanges,
            NewMergeSubscription,
            SubscriberType,
            PartitionOptions,
            Partition,
            Winner,
        ),
    ),
    Section(
        "Change tracking",
        "tracking",
        ChangeTracking,
        (
            TrackingRequest,
            TrackingKeyType,
            TrackingOptions,
            Storage,
            StampIndex,
            PurgeType,
            rowtide.tracking.TrackedChanges,
            rowtide.tracking.Change,
            rowtide.tracking.OwnTransaction,
        ),
    ),
)


def page() -> str:
    """Return the page's text."""
    public = (rowtide.connect, rowtide.open_lake, rowtide.register, rowtide.register_source, rowtide.build_session)
    functions = [_function("rowtide", function) for function in public]
    parts = [HEAD, "## Functions", *functions]
    for section in SECTIONS:
        package = importlib.import_module(".".join(section.subject.__module__.split(".")[:2]))
        imported = [_import(section.subject, package)] if section.is_made_by_the_caller else []
        parts += [f"## {section.title}", *imported]
        parts += _class(section.name, section.subject)
        for kind in section.types:
            parts += [f"### `{kind.__name__}`", _import(kind, package), *_type(kind)]
    parts += ["## Tracked devices in Spark", _function("rowtide.tracking.spark", read_changes)]
    parts += [f"### `{ChangeFrames.__name__}`", _import(ChangeFrames, rowtide.tracking.spark), *_type(ChangeFrames)]
    parts += ["## Events and logs", "What is emitted is in [the list of events](log-events.md)."]
    events = importlib.import_module("rowtide.events")
    parts += [_function("rowtide.events", events.configure_logging), _function("rowtide.events", events.listening)]
    for kind in (events.LogOptions, events.LogFormat, events.Level, events.Emitted, events.Scope):
        parts += [f"### `{kind.__name__}`", _import(kind, events), *_type(kind)]
    return "\n\n".join(parts) + "\n"


def _import(kind: type, package: ModuleType) -> str:
    """Return the line that imports a type: from its feature's package, else from `rowtide`."""
    exporting = package if getattr(package, kind.__name__, None) is kind else rowtide
    assert getattr(exporting, kind.__name__) is kind
    return f"`from {exporting.__name__} import {kind.__name__}`"


def _type(kind: type) -> Iterator[str]:
    yield _prose(kind)
    if members := list(_members(kind)):
        columns = "| member | value | |" if issubclass(kind, enum.Enum) else "| field | type and default | |"
        yield "\n".join([columns, "|---|---|---|", *members])
    yield from (_method(kind.__name__, node, "####", kind) for node in _methods(kind) if ast.get_docstring(node))


def _class(name: str, subject: type) -> Iterator[str]:
    yield _prose(subject)
    for part in inspect.getmro(subject):
        if part.__module__.startswith("rowtide."):
            yield from (_method(name, node, "###", part) for node in _methods(part))


def _function(module: str, function: Callable[..., object]) -> str:
    node = _tree(function).body[0]
    assert isinstance(node, ast.FunctionDef)
    return _method(module, node, "###", function)


def _method(owner: str, node: ast.FunctionDef, heading: str, subject: type | Callable[..., object]) -> str:
    decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
    is_value = bool(decorators & {"property", "cached_property"})
    returned = ast.unparse(node.returns) if node.returns else "None"
    signature = f"{node.name}: {returned}" if is_value else _signature(node, returned)
    if "contextmanager" in decorators:
        signature = signature.replace(" -> Iterator[", " -> AbstractContextManager[")
    if options := _options_taken(node, subject):
        signature = _signed(node.name, list(_fields(options)), returned)
    docstring = _as_markdown(ast.get_docstring(node) or "")
    return f"{heading} `{owner}.{node.name}`\n\n```\n{signature}\n```\n\n{docstring}".rstrip()


def _options_taken(node: ast.FunctionDef, subject: type | Callable[..., object]) -> type | None:
    """Return the class of options whose fields a method takes."""
    match node.decorator_list:
        case [ast.Call(func=ast.Name(id="takes"), args=[ast.Name(id=name)])]:
            options: type = vars(sys.modules[subject.__module__])[name]
            return options
        case _:
            return None


def _fields(options: type) -> Iterator[str]:
    """Yield the fields of a class of options as arguments."""
    declared = {
        node.target.id: node
        for node, _ in _statements(options)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    is_named = False
    for name, parameter in inspect.signature(options).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and not is_named:
            is_named = True
            yield "*"
        yield _argument(ast.arg(name, _plain(declared[name].annotation)), declared[name].value)


def _plain(annotation: ast.expr) -> ast.expr:
    """Return a type without what `Annotated` says of it."""
    match annotation:
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[kind, *_])):
            return kind
        case _:
            return annotation


def _signature(node: ast.FunctionDef, returned: str) -> str:
    return _signed(node.name, list(_arguments(node.args)), returned)


def _signed(name: str, arguments: list[str], returned: str) -> str:
    line = f"{name}({', '.join(arguments)}) -> {returned}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {argument}," for argument in arguments), f") -> {returned}"])


def _arguments(given: ast.arguments) -> Iterator[str]:
    """Yield the arguments but `self` and `cls` as Python writes them; a default that is code is an ellipsis."""
    placed = [*given.posonlyargs, *given.args]
    defaults = [None] * (len(placed) - len(given.defaults)) + list(given.defaults)
    for argument, default in zip(placed, defaults, strict=True):
        if argument.arg not in ("self", "cls"):
            yield _argument(argument, default)
    if given.vararg:
        yield f"*{_argument(given.vararg, None)}"
    elif given.kwonlyargs:
        yield "*"
    for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
        yield _argument(argument, default)
    if given.kwarg:
        yield f"**{_argument(given.kwarg, None)}"


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    named = f"{argument.arg}: {ast.unparse(argument.annotation)}" if argument.annotation else argument.arg
    return named if default is None else f"{named} = {_value(default)}"


def _members(kind: type) -> Iterator[str]:
    """Yield a row for each field of a dataclass or member of an enumeration, with the docstring below it."""
    for node, after in _statements(kind):
        note = _row_text(_docstring(after))
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value) if name != "_":
                default = "" if value is None else f" = {_value(value)}"
                shown = _row_text(f"{ast.unparse(_plain(annotation))}{default}")
                yield f"| `{name}` | `{shown}` | {_row_text(_described(kind, name, note))} |"
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if issubclass(kind, enum.Enum):
                yield f"| `{name}` | `{ast.unparse(value)}` | {note} |"
            case _:
                pass


def _methods(kind: type) -> Iterator[ast.FunctionDef]:
    for node in _definition(kind).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node


def _described(kind: type, field: str, note: str) -> str:
    """Return what an option says of itself, the note below it, and its name in SQL Server."""
    said = [one for one in get_args(_types(kind).get(field)) if isinstance(one, Option | Argument)]
    named = [f"(SQL Server: `{one.sql_server}`)" for one in said if isinstance(one, Option) and one.sql_server]
    return " ".join([*(one.help for one in said), note, *named])


@cache
def _types(kind: type) -> Mapping[str, Any]:
    try:
        return get_type_hints(kind, include_extras=True)
    except NameError:  # One that only the type checker imports: not of a command's options.
        return {}


def _statements(kind: type) -> Iterator[tuple[ast.stmt, ast.stmt | None]]:
    """Yield what the bodies of a class and of those that it is made of say, each with what follows it."""
    for part in inspect.getmro(kind):
        if part.__module__.startswith("rowtide."):
            body = _definition(part).body
            yield from zip(body, [*body[1:], None], strict=True)


def _definition(kind: type) -> ast.ClassDef:
    node = _tree(kind).body[0]
    assert isinstance(node, ast.ClassDef)
    return node


def _tree(subject: type | Callable[..., object]) -> ast.Module:
    """Return the source of a class or a function, with the values of the constants that it names."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(subject)))
    _Constants(vars(sys.modules[subject.__module__])).visit(tree)
    return tree


class _Constants(ast.NodeTransformer):
    def __init__(self, known: Mapping[str, object]) -> None:
        self._known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self._known.get(node.id)
        if get_origin(value) is Annotated:
            kind, said = get_args(value)[:2]
            shown = kind.__name__ if isinstance(kind, type) else str(kind)
            return ast.parse(f"Annotated[{shown}, Option(help={said.help!r})]", mode="eval").body
        return ast.Constant(value) if node.id.isupper() and isinstance(value, (int, str)) else node


def _docstring(node: ast.stmt | None) -> str:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return text
        case _:
            return ""


def _value(node: ast.expr) -> str:
    return ast.unparse(node) if isinstance(node, (ast.Constant, ast.Attribute, ast.Name, ast.Tuple)) else "..."


def _prose(kind: type) -> str:
    return _as_markdown(ast.get_docstring(_definition(kind)) or "")


def _as_markdown(docstring: str) -> str:
    """Return a docstring as Markdown: outside of code `<instance>` is not a tag."""
    return re.sub(r"`[^`]*`|<(?=\w)", lambda found: "\\<" if found[0] == "<" else found[0], docstring)


def _row_text(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
