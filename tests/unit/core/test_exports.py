"""What signatures of the handle and its features mention is imported from `rowtide` or the feature's package."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest

import rowtide
from rowtide.cdc.api import ChangeDataCapture
from rowtide.cdc.spark_changes import Changes
from rowtide.handle import Database
from rowtide.merge.api import MergeReplication
from rowtide.replication.api import TransactionalReplication
from rowtide.tracking.api import ChangeTracking

FEATURES = (
    "rowtide.actions",
    "rowtide.catalogs",
    "rowtide.cdc",
    "rowtide.conflicts",
    "rowtide.merge",
    "rowtide.replication",
    "rowtide.rights",
    "rowtide.targets",
    "rowtide.tracking",
)
PACKAGES = ("rowtide", *FEATURES)
every_package = pytest.mark.parametrize("package", PACKAGES)


def imported_names(body: ast.AST) -> dict[str, str]:
    """Return the modules from which names are imported anywhere in a piece of code."""
    return {
        alias.asname or alias.name: str(node.module)
        for node in ast.walk(body)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def mentioned(subject: type, annotations: Iterator[ast.expr]) -> Iterator[tuple[str, str]]:
    """Yield the package's own names in annotations of a class's body, each with its module."""
    module = sys.modules[subject.__module__]
    tree = ast.parse(inspect.getsource(module))
    homes = {name: home for name, home in imported_names(tree).items() if home.startswith("rowtide.")}
    homes |= {
        name: subject.__module__ for name, value in vars(module).items() if _is_defined_in(value, subject.__module__)
    }
    for annotation in annotations:
        for node in ast.walk(annotation):
            if isinstance(node, ast.Name) and node.id in homes:
                yield node.id, homes[node.id]


def _is_defined_in(value: object, module: str) -> bool:
    return isinstance(value, type) and value.__module__ == module


def signature_annotations(subject: type) -> Iterator[ast.expr]:
    """Yield the annotations of a class's public methods."""
    for node in _body(subject):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            given = node.args
            named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            yield from (one.annotation for one in named if one is not None and one.annotation is not None)
            yield from [node.returns] if node.returns is not None else []


def field_annotations(subject: type) -> Iterator[ast.expr]:
    """Yield the annotations of a class's public fields."""
    for node in _body(subject):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not node.target.id.startswith("_"):
            yield _without_option(node.annotation)


def _without_option(annotation: ast.expr) -> ast.expr:
    """Return a type without what `Annotated` says of it."""
    match annotation:
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[kind, *_])):
            return kind
        case _:
            return annotation


def _body(subject: type) -> list[ast.stmt]:
    tree = ast.parse(inspect.getsource(sys.modules[subject.__module__]))
    return next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == subject.__name__)


def own_bases(subject: type) -> Iterator[type]:
    return (base for base in subject.__mro__ if base.__module__.startswith("rowtide."))


def mentioned_types(subject: type, *, with_fields: bool) -> set[object]:
    """Return the types of a class's signatures, and those of their fields."""
    found: dict[str, object] = {}
    open_names = [one for base in own_bases(subject) for one in mentioned(base, signature_annotations(base))]
    while open_names:
        name, home = open_names.pop()
        kind = getattr(import_module(home), name)
        if f"{home}.{name}" in found:
            continue
        found[f"{home}.{name}"] = kind
        if with_fields and isinstance(kind, type) and not issubclass(kind, Exception):
            open_names += [
                one
                for base in own_bases(kind)
                for one in mentioned(base, field_annotations(base))
                if isinstance(getattr(import_module(one[1]), one[0]), type)
            ]
    return set(found.values())


def exported(*packages: str) -> list[object]:
    """Return what packages export, and all errors."""
    modules = [import_module(package) for package in packages]
    errors = import_module("rowtide.errors")
    public = [getattr(module, name) for module in modules for name in _public(module)]
    return public + [getattr(errors, name) for name in dir(errors)]


def _public(module: ModuleType) -> list[str]:
    names: list[str] = module.__all__
    return names


@pytest.mark.parametrize(
    ("feature", "subject"),
    [
        ("rowtide.cdc", ChangeDataCapture),
        ("rowtide.cdc", Changes),
        ("rowtide.replication", TransactionalReplication),
        ("rowtide.merge", MergeReplication),
        ("rowtide.tracking", ChangeTracking),
    ],
)
def test_what_a_feature_takes_and_returns_is_exported(feature: str, subject: type) -> None:
    types, known = mentioned_types(subject, with_fields=True), exported("rowtide", feature)

    assert types
    assert [kind for kind in types if kind not in known] == []
    assert subject in known


def test_what_the_handle_takes_and_returns_is_exported() -> None:
    types, known = mentioned_types(Database, with_fields=False), exported(*PACKAGES)

    assert types
    assert [kind for kind in types if kind not in known] == []
    assert Database in known


def test_one_thing_has_one_name() -> None:
    subjects = (Database, ChangeDataCapture, Changes, TransactionalReplication, MergeReplication, ChangeTracking)
    names = {name for subject in subjects for name in dir(subject) if not name.startswith("_")}
    names -= {"conflicts"}  # of merge: programs know it

    assert [name for name in names if {f"{verb}_{name}" for verb in ("get", "list", "read")} & names] == []


@every_package
def test_all_has_every_public_name_sorted(package: str) -> None:
    module = import_module(package)
    names = _public(module)
    block = next(node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.If))

    assert names == sorted(names)
    assert imported_names(block) == module._HOMES
    assert set(names) == set(module._HOMES)
    assert set(names) <= set(dir(module))


@every_package
def test_a_name_that_is_not_there_is_an_attribute_error(package: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'NoSuchName'"):
        _ = import_module(package).NoSuchName


@every_package
def test_a_package_is_imported_without_its_parts(package: str) -> None:
    program = f"import sys, {package}; print(*(name for name in sys.modules if name.startswith('rowtide.')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    core = {
        "rowtide.core",
        *(f"rowtide.core.{name}" for name in ("errors", "exports", "redaction")),
    }
    assert set(done.stdout.split()) - core - {package} == set()


def test_errors_are_there_without_any_extra() -> None:
    heavy = {"numpy", "psycopg", "pyarrow", "pyspark", "sqlalchemy"}
    program = f"import sys, rowtide.errors; print(*({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == ""


def test_bases_of_errors_are_those_that_errors_have() -> None:
    from rowtide.cdc.errors.querying import InstanceUnknown

    assert issubclass(InstanceUnknown, rowtide.NotFound)
    assert issubclass(rowtide.NotFound, rowtide.RowtideError)
