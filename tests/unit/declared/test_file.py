"""The file of a declared state: every mistake named, and what is written read as it was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, strategies

from rowtide.declared.errors import DeclarationInvalid, DeclarationUnreadable
from rowtide.declared.file import parse_file, write_file
from rowtide.declared.kinds import KINDS, NAME
from rowtide.declared.planning import DeclaredObject, as_state


def problems_of(text: str) -> list[str]:
    with pytest.raises(DeclarationInvalid) as raised:
        parse_file(text, "shop.toml")
    return raised.value.problems.split("; ")


def test_all_mistakes_are_named_with_the_nearest_key() -> None:
    text = """
    [cdc]
    lake = 5
    widend = "auto"
    [cdc.instances.items]
    tabel = "item"
    before_images = "half"
    [cdc.consumers.search]
    instances = "items"
    limit_hours = 99999999
    [cdc.jobs.cleaning]
    [replicaton.publications.p]
    [merge.publications.p.articles.t.filters]
    x = 1
    """

    assert set(problems_of(text)) == {
        "replicaton is unknown, replication is known",
        "cdc: widend is unknown, widened is known",
        "cdc: lake is no text",
        "cdc.instances.items: tabel is unknown, table is known",
        "cdc.instances.items: before_images is not one of full, key",
        "cdc.instances.items: table is missing",
        "cdc.consumers.search: instances is no list of texts",
        "cdc.consumers.search: limit_hours is more than 876000",
        "cdc.jobs.cleaning: it is not one of capture, cleanup",
        "merge.publications.p.articles.t.filters.x: is no table",
    }


def test_a_password_is_refused_and_not_repeated() -> None:
    urls = ["postgresql://ann:hush@h/copy", "postgresql://ann@h/copy?password=hush"]
    sections = [f'[replication.publications.p.subscriptions."{url}"]' for url in urls]
    distribution = '[replication]\ndistribution_db = "postgresql://ann:hush@h/d"\n'

    with pytest.raises(DeclarationInvalid) as raised:
        parse_file(distribution + "\n".join(sections), "shop.toml")

    assert raised.value.problems.count("its URL has a password") == len(urls) + 1
    assert "hush" not in str(raised.value)


def test_text_that_is_no_toml_is_said_with_its_place() -> None:
    with pytest.raises(DeclarationUnreadable, match="shop.toml cannot be read: it is no TOML: .*line 2"):
        parse_file("[cdc]\nlake =\n", "shop.toml")


def test_defaults_are_no_difference_however_they_are_written() -> None:
    plain = parse_file("[tracking.tables.t]\n[cdc.jobs.cleanup]\n[merge.publications.p.articles.t]\n", "a")
    explicit = """
    [tracking.tables.t]
    options = "all"
    key_type = "primary_key"
    [cdc.jobs.cleanup]
    retention = 4320
    schedule = "0 2 * * *"
    [merge.publications.p.articles.t]
    partition_options = "overlapping"
    upload_options = 0
    """

    assert parse_file(explicit, "b") == plain


TEXTS = strategies.text(strategies.characters(blacklist_categories=["Cs"]), max_size=8)
NAMES = TEXTS.filter(lambda name: bool(name.strip()))


@strategies.composite
def objects(draw: strategies.DrawFn) -> DeclaredObject:
    """Draw an object whose options are texts, lists and tables of any characters."""
    kind = draw(strategies.sampled_from([one for one in KINDS if one.depth and not one.is_url]))
    own = strategies.sampled_from([*kind.named_defaults]) if kind.named_defaults else NAMES
    names = (*draw(strategies.tuples(*[NAMES] * (kind.depth - 1))), draw(own))
    options: dict[str, Any] = {}
    for key in kind.keys.values():
        drawn = draw(
            {
                "text": TEXTS,
                "list of texts": strategies.lists(TEXTS),
                "table of texts": strategies.dictionaries(NAMES, TEXTS),
                "true or false": strategies.booleans(),
            }.get(key.type.name, strategies.none())
        )
        if key.is_required or (drawn is not None and draw(strategies.booleans())):
            options[key.name] = drawn
    kept = {name: value for name, value in options.items() if value != kind.default_of(names, name)}
    return DeclaredObject(kind, names, kept)


def list_containers(one: DeclaredObject) -> Iterator[DeclaredObject]:
    """Yield the objects that contain one, without options."""
    kind, names = one.kind.container, one.names
    while kind is not None:
        names = names[: kind.depth]
        yield DeclaredObject(kind, names)
        kind = kind.container


@given(strategies.lists(objects(), max_size=5))
def test_what_is_written_is_read_as_it_was(drawn: list[DeclaredObject]) -> None:
    state = as_state([*chain.from_iterable(map(list_containers, drawn)), *drawn])

    assert parse_file(write_file(state), "shop.toml") == state


def test_each_kind_has_a_place_of_its_own() -> None:
    assert len({kind.path for kind in KINDS}) == len(KINDS)
    for kind in KINDS:
        assert len(kind.named_by) == kind.path.count(NAME), kind.name
        assert all(re.fullmatch(r"[a-z_]+", key) for key in kind.keys), kind.name
