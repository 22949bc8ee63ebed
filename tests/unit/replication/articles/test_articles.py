"""What a request to publish a table comes to, and what of it is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from builders.capture.capture_instances import source_table
from builders.replication.articles import ANOTHER_ID, ARTICLE_ID, article
from rowtide.core.json_records import JsonInvalid
from rowtide.core.operations import Operation
from rowtide.core.tables import BeforeImages
from rowtide.databases.source_table import SourceTable, TableKind, TablePartition
from rowtide.log.membership import Member
from rowtide.replication.articles.articles import (
    MAX_NAME_BYTES,
    Article,
    PublishedColumn,
    as_member,
    decode_article,
    encode_article,
)
from rowtide.replication.articles.call_formats import CallFormat, Command
from rowtide.replication.articles.requests import ArticleChange, ArticleRequest
from rowtide.replication.errors.publishing import (
    ArticleNeedsKey,
    ArticleTooWide,
    CommandInvalid,
    ImagesNeeded,
    KeyGenerated,
    PartitionNotPublishable,
    PublishedColumnListedTwice,
    PublishedColumnUnknown,
    PublishedKeyColumnMissing,
    TableNotPublishable,
)

OPERATIONS = (Operation.INSERT, Operation.UPDATE, Operation.DELETE)
LINES = source_table(
    [("line", "integer"), ("quantity", "integer"), ("of_order", "bigint"), ("note", "text")],
    name="lines",
    key=("of_order", "line"),
)
KEYLESS = source_table(name="events", key=())


def with_generated(table: SourceTable, *names: str) -> SourceTable:
    columns = (replace(column, is_generated=column.name in names) for column in table.columns)
    return replace(table, columns=tuple(columns))


def wide_table(columns: int, keys: int = 1) -> SourceTable:
    names = [f"c{number}" for number in range(1, columns + 1)]
    return source_table([(name, "integer") for name in names], key=names[:keys])


def names_of(made: Article) -> list[str]:
    return [column.name for column in made.columns]


def procedures_of(made: Article) -> list[str]:
    return [made.generated_procedure(operation) for operation in OPERATIONS]


def test_without_a_list_all_columns_are_published_in_table_order() -> None:
    made = article(LINES)
    assert names_of(made) == ["line", "quantity", "of_order", "note"]
    assert made.has_all_columns


def test_listed_columns_are_published_in_table_order() -> None:
    made = article(LINES, columns=("note", "of_order", "line"))
    assert names_of(made) == ["line", "of_order", "note"]
    assert not made.has_all_columns


def test_a_list_of_every_column_still_is_a_choice() -> None:
    assert not article(LINES, columns=tuple(column.name for column in LINES.columns)).has_all_columns


def test_a_published_column_is_as_the_publisher_has_it() -> None:
    (line, of_order) = article(LINES, columns=("of_order", "line")).columns
    assert line == PublishedColumn(
        number=1,
        name="line",
        type_text="integer",
        type_code=23,
        type_modifier=-1,
        is_nullable=False,
        key_ordinal=2,
        value_type_text="integer",
        has_deterministic_collation=True,
    )
    assert (of_order.number, of_order.type_text, of_order.key_ordinal) == (3, "bigint", 1)


def test_key_columns_come_in_the_keys_order() -> None:
    assert [column.name for column in article(LINES).key_columns] == ["of_order", "line"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            ("line", "quantity"),
            "RT-7105: the column list of public.lines excludes key column of_order. Add it to --columns.",
        ),
        (
            ("of_order", "note"),
            "RT-7105: the column list of public.lines excludes key column line. Add it to --columns.",
        ),
    ],
)
def test_a_list_without_a_column_of_the_key_is_refused(columns: tuple[str, ...], message: str) -> None:
    with pytest.raises(PublishedKeyColumnMissing) as refused:
        article(LINES, columns=columns)
    assert str(refused.value) == message


@pytest.mark.parametrize("unknown", ["price", "Note", " note", ""])
def test_a_listed_column_that_the_table_does_not_have_is_refused(unknown: str) -> None:
    with pytest.raises(PublishedColumnUnknown) as refused:
        article(LINES, columns=("line", "of_order", unknown))
    assert str(refused.value) == (
        f"RT-7103: table public.lines has no column {unknown} that can be published. "
        "List only stored columns of the table; generated ones are computed again at the subscriber."
    )


def test_a_column_that_is_listed_twice_is_refused() -> None:
    with pytest.raises(PublishedColumnListedTwice) as refused:
        article(LINES, columns=("line", "of_order", "line"))
    assert str(refused.value) == "RT-7104: the column list of public.lines names line twice. Name it once."


def test_generated_columns_are_left_out_and_noted() -> None:
    made = article(with_generated(LINES, "quantity"))
    assert names_of(made) == ["line", "of_order", "note"]
    assert made.generated_columns == ("quantity",)
    assert made.has_all_columns


def test_a_listed_generated_column_is_refused() -> None:
    with pytest.raises(PublishedColumnUnknown) as refused:
        article(with_generated(LINES, "quantity"), columns=("line", "of_order", "quantity"))
    assert (refused.value.table, refused.value.column) == ("public.lines", "quantity")


def test_a_generated_key_is_refused_but_for_inserts_alone() -> None:
    with pytest.raises(KeyGenerated) as refused:
        article(with_generated(LINES, "line"))
    assert (refused.value.table, refused.value.column) == ("public.lines", "line")
    assert names_of(article(with_generated(LINES, "line"), update="NONE", delete="NONE")) == [
        "quantity",
        "of_order",
        "note",
    ]


@pytest.mark.parametrize(
    ("update", "delete"), [("SCALL", "CALL"), ("SCALL", "NONE"), ("NONE", "CALL"), ("SQL", "NONE"), ("NONE", "XCALL")]
)
def test_updates_and_deletes_of_a_table_without_key_are_refused(update: str, delete: str) -> None:
    with pytest.raises(ArticleNeedsKey) as refused:
        article(KEYLESS, update=update, delete=delete)
    assert str(refused.value) == (
        "RT-14088: table public.events has no primary key, which updates and deletes need to find their rows. "
        "Add a primary key, or publish only inserts: --update-command NONE --delete-command NONE."
    )


def test_a_table_without_key_is_published_for_its_inserts_alone() -> None:
    made = article(KEYLESS, update="NONE", delete="NONE")
    assert (names_of(made), made.key_columns) == (["id", "name"], ())


def test_of_a_table_without_key_any_column_may_be_left_out() -> None:
    assert names_of(article(KEYLESS, columns=("name",), update="NONE", delete="NONE")) == ["name"]


@pytest.mark.parametrize("kind", [TableKind.UNLOGGED, TableKind.TEMPORARY, TableKind.FOREIGN])
def test_a_table_whose_rows_are_not_logged_is_refused(kind: TableKind) -> None:
    with pytest.raises(TableNotPublishable) as refused:
        article(source_table(kind=kind))
    assert str(refused.value) == (
        f"RT-7102: public.t1 is of kind {kind.value}, which cannot be published. "
        "Publish ordinary or partitioned tables."
    )


def test_a_partitioned_table_is_published_as_one() -> None:
    assert names_of(article(source_table(kind=TableKind.PARTITIONED))) == ["id", "name"]


@pytest.mark.parametrize("kind", [TableKind.UNLOGGED, TableKind.FOREIGN])
def test_partitions_that_are_not_logged_are_refused(kind: TableKind) -> None:
    inner = TablePartition(2, "public", "inner", TableKind.PARTITIONED, "d", None)
    leaf = TablePartition(3, "public", "leaf", kind, "d", None)
    table = replace(source_table(kind=TableKind.PARTITIONED), partitions=(inner, leaf))

    with pytest.raises(PartitionNotPublishable, match=rf"RT-7215: .*partition public\.leaf is {kind.value}"):
        article(table)


@pytest.mark.parametrize(
    ("columns", "keys", "update", "parameters"),
    [
        (99, 1, "SCALL mine", 101),
        (98, 2, "MCALL mine", 101),
        (97, 4, "CALL mine", 101),
        (51, 1, "XCALL mine", 102),
    ],
)
def test_custom_procedure_with_over_100_parameters_is_refused(
    columns: int, keys: int, update: str, parameters: int
) -> None:
    with pytest.raises(ArticleTooWide) as refused:
        article(wide_table(columns, keys), update=update)
    assert (refused.value.count, refused.value.limit) == (parameters, 100)


@pytest.mark.parametrize(
    ("columns", "keys", "update"), [(98, 1, "SCALL"), (97, 2, "MCALL"), (97, 3, "CALL"), (50, 1, "XCALL")]
)
def test_a_call_of_a_hundred_parameters_is_not(columns: int, keys: int, update: str) -> None:
    assert len(article(wide_table(columns, keys), update=update).columns) == columns


def test_statements_take_any_number_of_columns() -> None:
    assert len(article(wide_table(1600), insert="SQL", update="SQL").columns) == 1600


def test_only_published_columns_count_as_parameters() -> None:
    assert len(article(wide_table(1600), columns=("c1", "c2")).columns) == 2


def test_generated_procedures_have_the_documented_names() -> None:
    made = article(source_table(schema="Purchasing", name="Vendor"))
    assert procedures_of(made) == [
        "sp_MSins_PurchasingVendor",
        "sp_MSupd_PurchasingVendor",
        "sp_MSdel_PurchasingVendor",
    ]


def test_custom_procedure_leaves_generated_names_unchanged() -> None:
    made = article(update="SCALL my_update", delete="NONE")
    assert made.command(Operation.UPDATE) == Command(CallFormat.SCALL, "my_update")
    assert procedures_of(made) == ["sp_MSins_publict1", "sp_MSupd_publict1", "sp_MSdel_publict1"]


def test_names_that_another_article_has_get_a_part_of_the_id() -> None:
    """Schema `a` with table `bc` and schema `ab` with table `c` come to the same."""
    first = article(source_table(schema="a", name="bc"))
    second = article(source_table(schema="ab", name="c"), taken=procedures_of(first), article_id=ANOTHER_ID)
    assert procedures_of(first) == ["sp_MSins_abc", "sp_MSupd_abc", "sp_MSdel_abc"]
    assert procedures_of(second) == ["sp_MSins_abc_99887766", "sp_MSupd_abc_99887766", "sp_MSdel_abc_99887766"]


@pytest.mark.parametrize("taken", ["sp_MSins_publict1", "sp_MSupd_publict1", "sp_MSdel_publict1"])
def test_one_taken_procedure_name_gives_all_three_a_suffix(taken: str) -> None:
    suffix = f"_{ARTICLE_ID[:8]}"
    assert procedures_of(article(taken=[taken, "sp_MSins_publict2"])) == [
        f"sp_MSins_publict1{suffix}",
        f"sp_MSupd_publict1{suffix}",
        f"sp_MSdel_publict1{suffix}",
    ]


def test_a_name_of_63_bytes_is_the_documented_one() -> None:
    name = "t" * (63 - len("sp_MSins_public"))
    made = article(source_table(name=name))
    assert procedures_of(made) == [f"{prefix}public{name}" for prefix in ("sp_MSins_", "sp_MSupd_", "sp_MSdel_")]


@pytest.mark.parametrize(
    ("name", "insert_procedure"),
    [
        ("t" * 49, f"sp_MSins_public{'t' * 39}_1f2e3d4c"),
        ("é" * 25, f"sp_MSins_public{'é' * 19}_1f2e3d4c"),
        ("漢" * 20, f"sp_MSins_public{'漢' * 13}_1f2e3d4c"),
        ("ab" + "漢" * 16, f"sp_MSins_publicab{'漢' * 12}_1f2e3d4c"),
        ("abc" + "😀" * 12, f"sp_MSins_publicabc{'😀' * 9}_1f2e3d4c"),
    ],
)
def test_long_name_is_cut_at_a_character_before_the_id_suffix(name: str, insert_procedure: str) -> None:
    made = article(source_table(name=name))
    assert made.insert_procedure == insert_procedure


@pytest.mark.parametrize("name", ["t" * 49, "é" * 31, "é" * 25, "x" + "漢" * 20, "😀" * 15, "t" * 63])
def test_long_names_fit_and_differ_by_operation_and_article(name: str) -> None:
    table = source_table(name=name)
    found = procedures_of(article(table)) + procedures_of(article(table, article_id=ANOTHER_ID))
    assert all(len(procedure.encode()) <= MAX_NAME_BYTES for procedure in found)
    assert len(set(found)) == 6


@pytest.mark.parametrize(
    ("update", "delete", "images"),
    [
        ("SCALL", "CALL", BeforeImages.FULL),
        ("CALL", "CALL", BeforeImages.FULL),
        ("MCALL", "CALL", BeforeImages.FULL),
        ("XCALL", "CALL", BeforeImages.FULL),
        ("SQL", "SQL", BeforeImages.FULL),
        ("SCALL", "NONE", BeforeImages.FULL),
        ("NONE", "XCALL", BeforeImages.FULL),
        ("NONE", "CALL", BeforeImages.KEY),
        ("NONE", "SQL", BeforeImages.KEY),
        ("NONE", "NONE", BeforeImages.KEY),
    ],
)
def test_full_before_images_unless_all_commands_use_only_keys(update: str, delete: str, images: BeforeImages) -> None:
    assert article(update=update, delete=delete).before_images is images


@pytest.mark.parametrize("update", ["SCALL", "NONE"])
@pytest.mark.parametrize("delete", ["CALL", "SQL", "NONE"])
def test_key_images_are_enough_for_changed_values_and_old_keys(update: str, delete: str) -> None:
    made = article(update=update, delete=delete, before_images=BeforeImages.KEY)
    assert made.before_images is BeforeImages.KEY
    assert not made.needs_whole_rows


def test_whole_rows_may_be_asked_for_where_keys_were_enough() -> None:
    assert article(update="NONE", before_images=BeforeImages.FULL).before_images is BeforeImages.FULL


@pytest.mark.parametrize(
    ("update", "delete", "command"),
    [
        ("CALL", "CALL", "CALL"),
        ("MCALL", "CALL", "MCALL"),
        ("XCALL", "CALL", "XCALL"),
        ("SQL", "CALL", "SQL"),
        ("MCALL my_update", "CALL", "MCALL my_update"),
        ("SCALL", "XCALL", "XCALL"),
        ("NONE", "XCALL my_delete", "XCALL my_delete"),
    ],
)
def test_key_images_are_refused_where_a_command_gives_all_values(update: str, delete: str, command: str) -> None:
    with pytest.raises(ImagesNeeded) as refused:
        article(update=update, delete=delete, before_images=BeforeImages.KEY)
    assert str(refused.value) == (
        f"RT-7106: {command} needs all values of public.t1, "
        "which the log does not always carry with --before-images key. "
        "Omit --before-images, or use SCALL and no row filter."
    )


@pytest.mark.parametrize(
    ("update", "delete"), [("CALL", "CALL"), ("MCALL", "NONE"), ("XCALL", "CALL"), ("SQL", "SQL"), ("NONE", "XCALL")]
)
def test_commands_that_give_all_values_need_whole_rows(update: str, delete: str) -> None:
    assert article(update=update, delete=delete).needs_whole_rows


def test_log_member_has_the_published_columns_and_no_commands() -> None:
    made = article(LINES, columns=("line", "of_order", "note"))
    assert as_member(made) == Member(
        ARTICLE_ID, "replication", "shop/lines", 16385, "public", "lines", ("line", "of_order", "note"), "{}", (1, 3, 4)
    )


@pytest.mark.parametrize(
    "made",
    [
        article(),
        article(LINES, columns=("line", "of_order"), update='MCALL "Mein Änderer"', delete="NONE"),
        article(KEYLESS, insert="SQL", update="NONE", delete="NONE"),
        article(with_generated(LINES, "note"), update="XCALL", delete="XCALL"),
        article(
            source_table([('größe \\ "x"', "text")], name="odd's", key=(), schema="☃"), update="NONE", delete="NONE"
        ),
    ],
    ids=["plain", "chosen", "inserts alone", "generated", "odd names"],
)
def test_an_article_survives_its_json(made: Article) -> None:
    assert decode_article(encode_article(made)) == made


def test_an_articles_json_holds_words_that_people_know() -> None:
    written = json.loads(encode_article(article(delete="NONE")))
    assert written["update"] == {"call_format": "SCALL", "procedure": None}
    assert (written["delete"]["call_format"], written["before_images"]) == ("NONE", "full")


@pytest.mark.parametrize(
    ("definition", "problem"),
    [
        ("", "not JSON"),
        ("[]", "not an object"),
        ("{}", "not the record Article"),
        (encode_article(article()).replace("SCALL", "VCALL"), "update.call_format is not one of CALL, "),
    ],
)
def test_what_is_no_article_is_refused(definition: str, problem: str) -> None:
    with pytest.raises(JsonInvalid, match=f"^{problem}"):
        decode_article(definition)


def test_commands_are_given_as_texts_or_by_operation() -> None:
    request = ArticleRequest(
        insert_command="none", update_command="MCALL", commands={Operation.UPDATE: Command(CallFormat.SQL)}
    )

    assert request.commands == {
        Operation.INSERT: Command(CallFormat.NONE),
        Operation.UPDATE: Command(CallFormat.SQL),
    }


def test_a_command_that_is_none_is_refused() -> None:
    with pytest.raises(CommandInvalid, match="XCALL"):
        ArticleChange("shop", "orders", delete_command="MCALL")
