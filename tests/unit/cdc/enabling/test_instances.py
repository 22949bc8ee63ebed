from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis.strategies import text

from builders.capture.capture_instances import instance, source_table, unique_index
from rowtide.cdc.definitions import EnabledTable
from rowtide.cdc.enabling.instances import as_member, is_key_kept, require_room, require_same_key
from rowtide.cdc.errors.enabling import (
    BeforeImagesNeedKey,
    BeforeImagesUnknown,
    ColumnUnknown,
    IndexInvalid,
    IndexNotUsable,
    IndexUnknown,
    InstanceNameInvalid,
    InstanceNameTaken,
    InstanceNameTooLong,
    KeyColumnMissing,
    KeyImagesDiffer,
    KeyImagesOfPartitions,
    NetChangesNeedKey,
    NoColumns,
    PartitionNotCapturable,
    SystemTable,
    TableNotCapturable,
    TwoInstancesExist,
)
from rowtide.cdc.instances import decode_instance, encode_instance, name_for_readers, name_in_lake
from rowtide.cdc.requests import InstanceRequest
from rowtide.core.tables import BeforeImages
from rowtide.databases.source_table import SourceTable, TableKind, TablePartition


def test_an_instance_is_named_after_schema_and_table() -> None:
    assert instance().capture_instance == "public_t1"


def test_a_given_name_loses_its_trailing_blanks() -> None:
    assert instance(name="orders  ").capture_instance == "orders"


@pytest.mark.parametrize("name", ["", "   ", "a/b", "..", "a b"])
def test_a_name_that_cannot_name_a_folder_is_refused(name: str) -> None:
    with pytest.raises(InstanceNameInvalid, match=f'"{re.escape(name.strip())}" cannot name a capture instance'):
        instance(name=name)


def test_a_name_has_at_most_100_characters() -> None:
    assert len(instance(name="n" * 100).capture_instance) == 100
    with pytest.raises(InstanceNameTooLong):
        instance(name="n" * 101)


def test_the_column_list_keeps_the_order_of_the_table() -> None:
    table = source_table([("id", "integer"), ("a", "text"), ("b", "text")])

    assert [column.name for column in instance(table=table, columns=["b", "id"]).columns] == ["id", "b"]


def test_a_table_without_columns_is_refused() -> None:
    with pytest.raises(NoColumns, match="RT-4116: no column of public.t1 would be captured"):
        instance(table=source_table([], key=()))


def test_the_column_list_must_hold_the_key() -> None:
    with pytest.raises(KeyColumnMissing):
        instance(columns=["name"])


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(ColumnUnknown):
        instance(columns=["id", "nmae"])


@pytest.mark.parametrize("kind", [TableKind.UNLOGGED, TableKind.TEMPORARY, TableKind.FOREIGN])
def test_a_table_whose_rows_are_not_logged_as_its_own_is_refused(kind: TableKind) -> None:
    with pytest.raises(TableNotCapturable, match=kind.value):
        instance(table=source_table(kind=kind))


@pytest.mark.parametrize("kind", [TableKind.UNLOGGED, TableKind.FOREIGN])
def test_partitioned_table_with_an_unlogged_partition_is_refused(kind: TableKind) -> None:
    inner = TablePartition(2, "public", "inner", TableKind.PARTITIONED, "d", None)
    leaf = TablePartition(3, "public", "leaf", kind, "d", None)
    table = replace(source_table(kind=TableKind.PARTITIONED), partitions=(inner, leaf))

    with pytest.raises(PartitionNotCapturable, match=rf"RT-4122: .*partition public\.leaf is {kind.value}"):
        instance(table=table)


@pytest.mark.parametrize("schema", ["cdc", "rowtide", "pg_catalog"])
def test_tables_of_the_system_are_refused(schema: str) -> None:
    with pytest.raises(SystemTable, match=rf"table {schema}\.t1 belongs to rowtide or to the system"):
        instance(table=source_table(schema=schema))


def test_names_are_unique_without_regard_to_case() -> None:
    with pytest.raises(InstanceNameTaken):
        require_room(instance(), [EnabledTable("Public_T1", 1, "m0", refuses_truncate=False)])


def test_third_instance_is_refused_with_the_names_of_the_two() -> None:
    enabled = [
        EnabledTable(name, source_id, f"member of {name}", refuses_truncate=False)
        for name, source_id in (("one", 16385), ("two", 16385), ("other", 7))
    ]

    with pytest.raises(TwoInstancesExist, match="one, two"):
        require_room(instance("m4"), enabled)
    require_room(instance("m4"), enabled[1:])


def test_net_changes_need_a_key() -> None:
    assert instance().supports_net_changes
    assert not instance(table=source_table(key=())).supports_net_changes


def test_before_images_of_the_key_need_one() -> None:
    with pytest.raises(BeforeImagesNeedKey, match=r"RT-4121: table public\.t1 has no primary key"):
        instance(table=source_table(key=()), before_images=BeforeImages.KEY)


def test_the_index_columns_follow_the_order_of_the_key() -> None:
    table = source_table([("a", "integer"), ("b", "integer")], key=("b", "a"))

    assert [column.name for column in instance(table=table).index_columns] == ["b", "a"]


@pytest.mark.parametrize(
    ("names", "reader_names"),
    [
        (["id", "name"], ["id", "name"]),
        (["a", "A", "a_2"], ["a", "A_2", "a_2_2"]),
        (["Ä", "ä"], ["Ä", "ä_2"]),
    ],
)
def test_names_that_differ_only_in_case_get_a_suffix(names: list[str], reader_names: list[str]) -> None:
    assert name_for_readers(names) == reader_names


@pytest.mark.parametrize(
    ("name", "in_lake"),
    [
        ("Größe", "Größe"),
        ("a, b", "a%2C%20b"),
        ("discount%", "discount%"),
        ("100%25", "100%2525"),
        ("{(\t=\n)};", "%7B%28%09%3D%0A%29%7D%3B"),
    ],
)
def test_names_in_the_lake_need_no_column_mapping(name: str, in_lake: str) -> None:
    assert name_in_lake(name) == in_lake


@given(text(alphabet=" ,%25Ca{"))
def test_names_in_the_lake_can_be_decoded(name: str) -> None:
    assert unquote(name_in_lake(name)) == name


def test_readers_know_columns_by_their_names_in_the_source() -> None:
    made = instance(table=source_table([("a b", "integer"), ("A B", "text"), ("c", "text")]))

    assert [column.lake_name for column in made.columns] == ["a%20b", "A%20B_2", "c"]
    assert made.reader_names == {"a%20b": "a b", "A%20B_2": "A B_2"}
    assert [column.lake_name for column in made.for_readers().columns] == ["a b", "A B_2", "c"]


def test_a_definition_survives_its_json() -> None:
    made = instance(table=source_table([("id", "integer"), ("Größe; drop", "numeric(12,2)")]))

    assert decode_instance(encode_instance(made)) == made


def test_a_member_needs_the_captured_columns() -> None:
    table = source_table([("id", "integer"), ("a", "text"), ("secret", "text")])

    assert as_member(instance(table=table, columns=["id", "a"])).columns == ("id", "a")


def test_before_images_may_be_named() -> None:
    named: Any = "key"
    assert InstanceRequest(before_images=named).before_images is BeforeImages.KEY
    unknown: Any = "most"
    with pytest.raises(BeforeImagesUnknown, match="RT-22863"):
        InstanceRequest(before_images=unknown)


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
