"""A method that takes options has their fields as keywords, or the object."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from functools import partial
from typing import Annotated, Any, get_args

import pytest

from rowtide.cdc.api import CaptureRehearsal, ChangeDataCapture
from rowtide.cdc.scans.pace import CaptureOptions, EngineSetting
from rowtide.core.errors import Invalid
from rowtide.core.options import Argument, Option, WordUnknown, member_of, takes
from rowtide.handle import Database
from rowtide.merge.api import MergeReplication
from rowtide.merge.articles import ExchangeType, SubscriberType, UploadOptions
from rowtide.merge.publishing.handle import MergeRehearsal
from rowtide.replication.api import TransactionalReplication
from rowtide.replication.articles.requests import ArticleChange, ArticleRequest, MovedPartitions
from rowtide.replication.conflicts import Resolver
from rowtide.replication.publishing.handle import ReplicationRehearsal
from rowtide.replication.subscription_settings import SubscriptionRequest, SubscriptionSettings, SyncType
from rowtide.targets.api import Targets
from rowtide.targets.options import ApplyEngine, NewTarget, TargetFormat
from rowtide.tracking.api import ChangeTracking, TrackingRehearsal
from rowtide.tracking.options import PurgeType, TrackingOptions


@dataclass(frozen=True, slots=True)
class NewThing:
    """A thing as it is added."""

    name: Annotated[str, Argument(help="its name")]
    _: KW_ONLY
    size: Annotated[int | None, Option(help="How large it is.")] = None
    role_name: Annotated[str, Option("--role, --group", help="Who may see it.")] = "all"


class Things:
    @takes(NewThing)
    def add(self, thing: NewThing) -> NewThing:
        """Add it."""
        return thing


@pytest.mark.parametrize(
    "added",
    [
        Things().add("a", size=2),
        Things().add(size=2, name="a"),
        Things().add(NewThing("a", size=2)),
    ],
)
def test_options_are_one_object_or_its_fields(added: NewThing) -> None:
    assert added == NewThing("a", size=2)


def test_help_shows_the_fields_with_plain_types() -> None:
    signature = inspect.signature(Things().add)

    assert list(signature.parameters) == ["name", "size", "role_name"]
    assert signature.parameters["size"].annotation == int | None
    assert inspect.getdoc(Things.add) == "Add it."


def test_a_keyword_may_be_named_as_on_the_command_line() -> None:
    assert Things().add("a", role="few") == NewThing("a", role_name="few")  # type: ignore[call-overload]


def test_what_is_given_by_both_names_is_refused() -> None:
    with pytest.raises(TypeError, match="role_name is given twice"):
        Things().add("a", role="few", role_name="few")  # type: ignore[call-overload]


def test_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        Things().add("a", colour="red")  # type: ignore[call-overload]


HANDLES = (
    CaptureRehearsal,
    ChangeDataCapture,
    ChangeTracking,
    Database,
    MergeRehearsal,
    MergeReplication,
    ReplicationRehearsal,
    Targets,
    TrackingRehearsal,
    TransactionalReplication,
)
NUMBERS_OF_THEIR_OWN = {"before_images", "purpose", "widened"}
"""Parameters whose other values have errors of SQL Server's numbers, or older ones."""


@pytest.mark.parametrize(
    ("kind", "given", "member"),
    [
        (TargetFormat, TargetFormat.ICEBERG, TargetFormat.ICEBERG),
        (TargetFormat, "iceberg", TargetFormat.ICEBERG),
        (TargetFormat, " Iceberg ", TargetFormat.ICEBERG),
        (SyncType, "replication support only", SyncType.REPLICATION_SUPPORT_ONLY),
        (SyncType, "FROM_LSN", SyncType.FROM_LSN),
        (UploadOptions, "kept-local", UploadOptions.KEPT_LOCAL),
        (UploadOptions, "1", UploadOptions.KEPT_LOCAL),
        (UploadOptions, 1, UploadOptions.KEPT_LOCAL),
        (PurgeType, "days", PurgeType.TIME_BASED),
        (PurgeType, "csn-based", PurgeType.CSN_BASED),
        (TrackingOptions, "insert, delete", TrackingOptions.INSERT | TrackingOptions.DELETE),
        (TrackingOptions, "all", TrackingOptions.ALL),
        (TrackingOptions, 3, TrackingOptions.INSERT | TrackingOptions.UPDATE),
    ],
)
def test_a_member_is_given_by_name_value_or_itself(kind: type[Enum], given: object, member: Enum) -> None:
    assert member_of(kind, given, "it") is member


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (TargetFormat, "parquet"),
        (TargetFormat, ""),
        (TargetFormat, None),
        (TargetFormat, 1),
        (TargetFormat, ["delta"]),
        (UploadOptions, 3),
        (UploadOptions, True),
        (UploadOptions, SubscriberType.SERVER),
        (TrackingOptions, "insert,truncate"),
        (TrackingOptions, "insert,"),
        (TrackingOptions, 8),
    ],
)
def test_anything_else_is_refused(kind: type[Enum], given: object) -> None:
    with pytest.raises(WordUnknown, match="RT-1141: option cannot be "):
        member_of(kind, given, "option")


def test_a_refusal_lists_what_there_is() -> None:
    with pytest.raises(WordUnknown) as refused:
        member_of(ExchangeType, "sideways", "exchange")
    assert str(refused.value) == "RT-1141: exchange cannot be 'sideways'. Give upload, download or both."


def test_options_that_are_given_as_an_object_have_members() -> None:
    options = NewTarget("t", ["i"], format="iceberg", engine="SPARK")  # type: ignore[arg-type]
    assert (options.format, options.engine) == (TargetFormat.ICEBERG, ApplyEngine.SPARK)


@pytest.mark.parametrize(
    ("kind", "given", "member"),
    [
        (CaptureOptions, {"engine": "spark"}, EngineSetting.SPARK),
        (ArticleRequest, {"moved_partitions": "copy"}, MovedPartitions.COPY),
        (partial(ArticleChange, "shop", "public.item"), {"moved_partitions": "copy"}, MovedPartitions.COPY),
        (SubscriptionRequest, {"sync_type": "automatic"}, SyncType.AUTOMATIC),
        (SubscriptionSettings, {"conflicts": "skip"}, Resolver.SKIP),
    ],
)
def test_objects_of_options_take_words(kind: Callable[..., Any], given: dict[str, str], member: Enum) -> None:
    (name, word), made = *given.items(), kind(**given)
    assert getattr(made, name) is member
    with pytest.raises(WordUnknown, match=f"{name} cannot be '{word}s'"):
        kind(**{name: f"{word}s"})


def enumerated() -> Iterator[tuple[type, str, str]]:
    """Yield the methods that take members of enumerations, and the parameters."""
    for handle in HANDLES:
        for name in dir(handle):
            method = getattr(handle, name)
            if name.startswith("_") or not inspect.isfunction(method):
                continue
            for parameter in inspect.signature(method).parameters.values():
                if parameter.name not in NUMBERS_OF_THEIR_OWN and is_enumerated(method, parameter.annotation):
                    yield handle, name, parameter.name


def is_enumerated(method: Callable[..., object], annotation: object) -> bool:
    """Whether an annotation names an enumeration first, of those that the package has."""
    if isinstance(annotation, str):
        kinds = {kind.__name__ for kind in all_enumerations(Enum)}
        return annotation.split(" | ")[0] in kinds
    first = (get_args(annotation) or (annotation,))[0]
    return isinstance(first, type) and issubclass(first, Enum)


def all_enumerations(kind: type[Enum]) -> Iterator[type[Enum]]:
    for own in kind.__subclasses__():
        yield own
        yield from all_enumerations(own)


@pytest.mark.parametrize(("handle", "method", "parameter"), [*enumerated()])
def test_every_method_refuses_words_that_it_does_not_know(handle: type, method: str, parameter: str) -> None:
    called = getattr(handle, method)
    taken = [one for one in inspect.signature(called).parameters.values() if one.name not in {"self", parameter}]
    needed = {one.name: "x" for one in taken if one.default is one.empty and one.kind is not one.VAR_KEYWORD}
    unknown = {"no such thing": "none"} if parameter == "commands" else "no such thing"
    with pytest.raises(Invalid, match=rf"RT-1141: {parameter} cannot be 'no such thing'"):
        called(object.__new__(handle), **needed, **{parameter: unknown})
