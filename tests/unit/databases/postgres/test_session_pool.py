"""Statements are compiled once for all databases."""

from __future__ import annotations

from sqlalchemy import select, text

from rowtide.databases.postgres.connect import open_engine


def test_what_one_engine_compiled_serves_all_of_its_driver() -> None:
    first, second = (open_engine(f"postgresql://server/{name}") for name in ("first", "second"))
    query = select(text("1"))

    kept = first.get_execution_options()["compiled_cache"]
    kept[first.dialect, "a query"] = compiled = query.compile(first)

    assert first.dialect is not second.dialect
    assert second.get_execution_options()["compiled_cache"].get((second.dialect, "a query")) is compiled
    assert kept.get((first.dialect, "another query")) is None
