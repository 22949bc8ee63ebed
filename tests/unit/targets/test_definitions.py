"""Which columns a target's table has, under which names, by which expressions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from builders.capture.consumers import NOON
from rowtide.cdc.consumers.consumers import ConsumedInstance, Consumer
from rowtide.cdc.instances import CapturedColumn, Instance
from rowtide.targets.columns import TargetColumns, shape_table
from rowtide.targets.definitions import Target, require_valid
from rowtide.targets.errors import TargetInvalid
from rowtide.targets.options import CURRENT, HISTORY, TargetOptions

NAMES = ("id", "email", "phone")


def instance(name: str = "public_item", *, supports_net_changes: bool = True) -> Instance:
    columns = tuple(
        CapturedColumn(
            column, place, "text", 25, -1, column, is_computed=False, index_ordinal=1 if place == 1 else None
        )
        for place, column in enumerate(NAMES, 1)
    )
    return Instance(
        capture_instance=name,
        member_id=f"m-{name}",
        database_kind="postgres",
        source_id=1,
        source_schema="public",
        source_table="item",
        supports_net_changes=supports_net_changes,
        index_name="item_pkey",
        columns=columns,
    )


def shape(*others: str, kind: str = CURRENT, keyed: bool = True, **options: Any) -> TargetColumns:
    names = ("public_item", *others)
    instances = tuple(ConsumedInstance(name, f"m-{name}") for name in names)
    consumer = Consumer("target:t", instances, timedelta(hours=1), None, None, None, None, NOON, names)
    target = Target("t", "id", kind, TargetOptions(path="/t", **options), consumer, NOON)
    return shape_table(target, instance(supports_net_changes=keyed), names)


def listed(found: TargetColumns) -> dict[str, str]:
    return {column.name: column.expression for column in found.columns}


def test_a_table_has_the_columns_of_its_instance() -> None:
    found = shape()
    assert listed(found) == {"id": "`id`", "email": "`email`", "phone": "`phone`"}
    assert [column.name for column in found.keys] == ["id"]
    assert [column.sources for column in found.columns] == [(1,), (2,), (3,)]


def test_columns_are_chosen_renamed_and_computed() -> None:
    found = shape(
        column_list=("id", "email"),
        rename={"id": "item_id"},
        columns={"email": "sha2(email, 256)", "twice": "id || id"},
    )
    assert listed(found) == {"item_id": "`id`", "email": "sha2(email, 256)", "twice": "id || id"}
    assert found.columns[1].sources == ()
    assert set(listed(shape(except_column_list=("phone",)))) == {"id", "email"}


def test_in_a_set_options_count_where_the_column_is() -> None:
    options: dict[str, Any] = {
        "columns": {"email": "'x'", "added": "1", "public_other.phone": "'y'", "public_item.mine": "2"}
    }
    assert listed(shape("public_other", **options)) == {"id": "`id`", "email": "'x'", "phone": "`phone`", "mine": "2"}
    assert listed(shape("public_other", rename={"public_item.phone": "number"}))["number"] == "`phone`"


def test_a_table_has_partitions_of_columns_that_it_has() -> None:
    names = ("email", "public_item.phone", "public_other.id", "public_other.street")
    assert shape("public_other", partition_by=names).partition_by == ("email", "phone")
    assert shape("public_other", cluster_by=names).cluster_by == ("email", "phone")
    assert shape(kind=HISTORY, partition_by=("is_current",)).partition_by == ("is_current",)
    with pytest.raises(TargetInvalid, match="no column beside those of its partitions"):
        shape(partition_by=NAMES)
    assert shape(partition_by=NAMES, soft_delete="gone").partition_by == NAMES


def test_a_key_has_to_be_there() -> None:
    with pytest.raises(TargetInvalid, match="identifies its rows"):
        shape(except_column_list=("id",))
    with pytest.raises(TargetInvalid, match="without a key"):
        shape(keyed=False)


def test_two_columns_cannot_have_one_name() -> None:
    with pytest.raises(TargetInvalid, match="two columns EMAIL"):
        shape(rename={"phone": "EMAIL"})
    with pytest.raises(TargetInvalid, match="two columns"):
        shape(kind=HISTORY, rename={"phone": "is_current"})
    with pytest.raises(TargetInvalid, match="two columns"):
        shape(soft_delete="phone")


def test_a_history_tracks_all_columns_or_some() -> None:
    def tracked(**options: Any) -> list[bool]:
        return [column.is_tracked for column in shape(kind=HISTORY, **options).columns]

    assert tracked() == [True, True, True]
    assert tracked(track_history_column_list=("email",)) == [False, True, False]
    assert tracked(track_history_except_column_list=("phone",)) == [True, True, False]


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("past", {}, "there is no kind past"),
        (CURRENT, {"path": None}, "neither a path nor a catalogue"),
        (CURRENT, {"catalog": "a.b"}, "a path and a catalogue"),
        (CURRENT, {"path": None, "catalog": "a"}, "NAME.NAMESPACE"),
        (HISTORY, {"soft_delete": "gone"}, "keeps deleted rows"),
        (CURRENT, {"track_history_column_list": ("a",)}, "only a history"),
        (CURRENT, {"column_list": ("a",), "except_column_list": ("b",)}, "named twice"),
        (CURRENT, {"cluster_by": ("a",), "partition_by": ("b",)}, "partitioned and clustered"),
        ("python:a.B", {"path": None, "partition_by": ("b",)}, "class is not partitioned"),
        *(
            (CURRENT, {"path": None, "catalog": "c.d", "catalog_options": {"type": "rest", name: value}}, reason)
            for reason in [r"its secret spark\.sql\.catalog\.c\."]
            for name, value in {
                "token": "x",
                "credential": "id:x",
                "jdbc.password": "x",
                "s3.secret-access-key": "x",
                "s3.session-token": "x",
                "adls.auth.shared-key.account.key": "x",
                "hadoop.fs.s3a.secret.key": "x",
                "header.Authorization": "Bearer x",
                "uri": "https://user:x@catalogue",
            }.items()
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(kind: str, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(TargetInvalid, match=reason):
        require_valid("t", kind, TargetOptions(**{"path": "/t", **options}))


def test_options_of_catalogues_are_no_secrets_by_their_names() -> None:
    usual = {
        "type": "rest",
        "uri": "https://catalogue:8181/api",
        "warehouse": "shop",
        "oauth2-server-uri": "https://catalogue/token",
        "token-refresh-enabled": "false",
        "scope": "PRINCIPAL_ROLE:ALL",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.access-key-id": "AKIA",
        "s3.sse.key": "arn:aws:kms:x",
    }
    require_valid("t", CURRENT, TargetOptions(catalog="c.d", catalog_options=usual))


def test_a_name_is_one_word() -> None:
    with pytest.raises(TargetInvalid, match="its name"):
        require_valid("a b", CURRENT, TargetOptions(path="/t"))
    require_valid("a-b.c_1", CURRENT, TargetOptions(path="/t"))
