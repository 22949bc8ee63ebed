"""Who may read and write a store of which format, and how one is migrated."""

from __future__ import annotations

from functools import partial

import pytest

from rowtide.core.formats import (
    MIGRATIONS,
    FormatNewer,
    FormatNotMigrated,
    FormatOutdated,
    FormatUnnumbered,
    MigrationMissing,
    PresentStore,
    StoredFormat,
    StoreFormat,
    format_row,
    parse_definition,
    removing,
    require,
)

KNOWN = StoreFormat("test store", number=3, least_reader=2, least_writer=3)


@pytest.mark.parametrize(
    ("stored", "reading", "writing"),
    [
        (None, FormatUnnumbered, FormatUnnumbered),
        (StoredFormat(2, 2, 2), FormatOutdated, FormatOutdated),
        (KNOWN.recorded, None, None),
        (StoredFormat(4, 1, 3), None, None),
        (StoredFormat(4, 3, 4), None, FormatNewer),
        (StoredFormat(5, 4, 4), FormatNewer, FormatNewer),
    ],
)
def test_a_store_says_who_may_use_it(
    stored: StoredFormat | None, reading: type[Exception] | None, writing: type[Exception] | None
) -> None:
    for required, error in ((KNOWN.require_readable, reading), (KNOWN.require_writable, writing)):
        if error is None:
            required("/here", stored)
        else:
            with pytest.raises(error, match="/here"):
                required("/here", stored)


def test_what_replaces_an_older_store_is_said() -> None:
    known = StoreFormat("snapshot", 2, 2, 2, replacement="write it again")
    for required in (known.require_readable, known.require_writable):
        with pytest.raises(FormatNotMigrated, match=r"RT-1139: .* Nothing was changed: write it again\."):
            required("/here", StoredFormat(1, 1, 1))


def test_what_a_store_records_is_read_back() -> None:
    assert StoredFormat.parse(str(KNOWN.recorded)) == KNOWN.recorded == StoredFormat(3, 2, 3)


@pytest.mark.parametrize("text", ["", "1", "1/1", "1/1/1/1", "a/b/c", "1/1/-1", "0/0/0", "1/2/1", "2/1/3"])
def test_what_no_build_records_is_no_format(text: str) -> None:
    with pytest.raises(ValueError, match="format"):
        StoredFormat.parse(text)


def _note(number: int, done: list[int]) -> None:
    done.append(number)


def test_a_store_is_migrated_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []
    for number in (1, 2):
        monkeypatch.setitem(MIGRATIONS, ("test store", number), partial(_note, number))
    store = PresentStore(KNOWN, "/here", StoredFormat(1, 1, 1), done)

    assert store.list_steps() == [1, 2]
    store.migrate()

    assert done == [1, 2]


@pytest.mark.parametrize(
    ("stored", "error", "problem"),
    [
        (StoredFormat(1, 1, 1), MigrationMissing, "has format 1, from which this version does not migrate"),
        (StoredFormat(4, 4, 4), FormatNewer, "it has format 4, this version 3"),
        (None, FormatUnnumbered, "was written before formats had numbers"),
    ],
)
def test_what_cannot_be_migrated_is_left(stored: StoredFormat | None, error: type[Exception], problem: str) -> None:
    done: list[int] = []
    with pytest.raises(error, match=problem):
        PresentStore(KNOWN, "/here", stored, done).migrate()
    assert not done


OWN = StoreFormat("store", 3, 1, 2)


@pytest.mark.parametrize(
    "definition",
    [
        f"create view v as {format_row(OWN.recorded)}",
        " SELECT 3 AS number,\n    1 AS least_reader,\n    2 AS least_writer;",
    ],
    ids=["as made", "as PostgreSQL prints it"],
)
def test_the_numbers_are_read_from_the_definition(definition: str) -> None:
    assert parse_definition(definition) == StoredFormat(3, 1, 2)


@pytest.mark.parametrize("definition", [None, "", "select 3 as number, 1 as least_reader"])
def test_anything_else_is_no_format(definition: str | None) -> None:
    assert parse_definition(definition) is None


def test_what_has_no_format_is_only_removed() -> None:
    own = StoreFormat("store")
    with pytest.raises(FormatUnnumbered):
        require(StoreFormat.require_readable, own, "here", None)
    with removing():
        require(StoreFormat.require_writable, own, "here", None)
        with pytest.raises(FormatNewer):
            require(StoreFormat.require_readable, own, "here", StoredFormat(2, 1, 2))
    with pytest.raises(FormatUnnumbered):
        require(StoreFormat.require_readable, own, "here", None)
