"""The index that identifies rows: which one is taken, and which are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builders.capture.capture_instances import instance, source_table, unique_index
from rowtide.cdc.definitions import EnabledTable
from rowtide.cdc.enabling.instances import require_same_key
from rowtide.cdc.enabling.row_keys import is_key_kept
from rowtide.cdc.errors.enabling import (
    BeforeImagesNeedKey,
    IndexInvalid,
    IndexNotUsable,
    IndexUnknown,
    KeyColumnMissing,
    KeyImagesDiffer,
    KeyImagesOfPartitions,
    NetChangesNeedKey,
)
from rowtide.core.tables import BeforeImages
from rowtide.databases.source_table import SourceTable, TableKind

COLUMNS = [("id", "integer"), ("region", "text"), ("code", "text"), ("note", "text")]
KEY_IMAGES = BeforeImages.KEY


def table_with(*columns: str | None, key: tuple[str, ...] = ("id",), **changes: Any) -> SourceTable:
    """Return a table whose columns `region` and `code` are not null, with an index `by_code` beside its key."""
    made = source_table(COLUMNS, key=key, indexes=[unique_index("by_code", *columns, **changes)])
    full = tuple(replace(one, is_nullable=one.name == "note") for one in made.columns)
    return replace(made, columns=full)


TABLE = table_with("region", "code")


def test_a_named_index_takes_precedence_over_the_primary_key() -> None:
    made = instance(table=TABLE, index_name="by_code")

    assert (made.index_name, made.supports_net_changes) == ("by_code", True)
    assert [(column.name, column.index_ordinal) for column in made.index_columns] == [("region", 1), ("code", 2)]


def test_unique_index_gives_net_changes_without_primary_key() -> None:
    keyless = table_with("code", key=())

    assert not instance(table=keyless).supports_net_changes
    assert instance(table=keyless, index_name="by_code").supports_net_changes


def test_net_changes_off_still_records_the_primary_key() -> None:
    made = instance(supports_net_changes=False)

    assert (made.supports_net_changes, made.index_name) == (False, "t1_pkey")
    assert [column.name for column in made.index_columns] == ["id"]


def test_net_changes_without_a_key_are_refused() -> None:
    with pytest.raises(NetChangesNeedKey, match=r"RT-22939: table public\.t1 .* it has no primary key"):
        instance(table=source_table(key=()), supports_net_changes=True)


def test_a_deferrable_primary_key_gives_no_net_changes() -> None:
    deferrable = replace(source_table(), indexes=(unique_index("t1_pkey", "id", is_immediate=False),))

    assert not instance(table=deferrable).supports_net_changes
    assert instance(table=deferrable).index_columns == ()
    with pytest.raises(NetChangesNeedKey, match="deferrable"):
        instance(table=deferrable, supports_net_changes=True)


@pytest.mark.parametrize(
    ("columns", "changes", "reason"),
    [
        (("code",), {"is_unique": False}, "not unique"),
        (("code",), {"is_immediate": False}, "deferrable"),
        (("code",), {"is_partial": True}, "some rows only"),
        (("code", None), {}, "expression"),
        (("code", "note"), {}, "column note may be null"),
    ],
)
def test_unusable_index_is_refused_with_the_reason(
    columns: tuple[str | None, ...], changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(IndexNotUsable, match=f"RT-22929: index by_code of table public.t1 .*{reason}"):
        instance(table=table_with(*columns, **changes), index_name="by_code")


def test_an_index_over_a_generated_column_is_refused() -> None:
    computed = replace(TABLE, columns=tuple(replace(one, is_generated=one.name == "code") for one in TABLE.columns))

    with pytest.raises(IndexNotUsable, match="column code is generated"):
        instance(table=computed, index_name="by_code")


def test_an_index_that_is_not_there_or_not_built_is_refused() -> None:
    with pytest.raises(IndexUnknown, match="RT-22928"):
        instance(table=TABLE, index_name="by_color")
    with pytest.raises(IndexInvalid, match="RT-22980"):
        instance(table=table_with("code", is_valid=False), index_name="by_code")


def test_column_list_needs_only_the_chosen_index_columns() -> None:
    assert instance(table=TABLE, index_name="by_code", columns=["code", "region"]).index_name == "by_code"
    with pytest.raises(KeyColumnMissing, match="region"):
        instance(table=TABLE, index_name="by_code", columns=["id", "code"])


def test_the_primary_key_by_its_name_is_the_primary_key() -> None:
    assert instance(index_name="t1_pkey") == instance()


def test_key_before_images_accept_an_index_without_primary_key() -> None:
    keyless = table_with("code", key=())

    assert instance(table=keyless, index_name="by_code", before_images=KEY_IMAGES).before_images is KEY_IMAGES
    with pytest.raises(BeforeImagesNeedKey):
        instance(table=keyless, before_images=KEY_IMAGES)


def test_partitions_have_before_images_of_the_primary_key_only() -> None:
    partitioned = replace(TABLE, kind=TableKind.PARTITIONED)

    assert instance(table=partitioned, before_images=KEY_IMAGES).is_partitioned
    with pytest.raises(KeyImagesOfPartitions):
        instance(table=partitioned, index_name="by_code", before_images=KEY_IMAGES)


def test_the_log_carries_the_keys_of_one_index_only() -> None:
    beside = EnabledTable("one", TABLE.source_id, "m1", refuses_truncate=False, before_images=KEY_IMAGES)
    of_code = instance("m2", table=TABLE, index_name="by_code", before_images=KEY_IMAGES)

    with pytest.raises(KeyImagesDiffer, match=r"RT-4142: .*by_code beside those of t1_pkey"):
        require_same_key(of_code, [replace(beside, index_name="t1_pkey")])
    require_same_key(of_code, [replace(beside, index_name="by_code")])
    require_same_key(of_code, [replace(beside, index_name="t1_pkey", before_images=BeforeImages.FULL)])
    require_same_key(of_code, [replace(beside, index_name="t1_pkey", source_id=1)])


def test_key_is_kept_by_any_usable_index_in_the_column_list() -> None:
    assert is_key_kept(TABLE, ["region", "code"])
    assert is_key_kept(TABLE, ["id", "note"])
    assert not is_key_kept(TABLE, ["code"])
    assert not is_key_kept(table_with("code", is_unique=False), ["code"])
