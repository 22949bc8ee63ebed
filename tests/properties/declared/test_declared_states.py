"""Random declared states: what is applied is exported as it was, and another state follows from any present one."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import psycopg
import pytest
from hypothesis import Phase, given, settings

from builders.declared_states import actions_of, apply_text, export_text, plan_text
from fixtures.servers import fresh_database
from rowtide.databases.postgres.embedded import EmbeddedServer
from rowtide.declared.errors import DeclarationImpossible
from rowtide.declared.file import write_file
from rowtide.declared.kinds import BY_NAME, Kind
from rowtide.declared.planning import DeclaredObject, as_state

TABLES = {
    "a": "create table a (id int primary key, name text not null, price int)",
    "b": "create table b (id int primary key, a int, note text)",
    "c": "create table c (id int, part int, note text, primary key (id, part))",
}
VIEWS = 'create view "b view" as select id from a; create view a_view_of_it as select id from "b view"'
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
"""Not smaller ones of a state that failed: each takes seconds."""
Options = Mapping[str, st.SearchStrategy[Any]]
BOOLS: st.SearchStrategy[bool] = st.booleans()
HOURS: st.SearchStrategy[int] = st.integers(1, 500)
CAPTURED: Options = {
    "before_images": st.sampled_from(["full", "key"]),
    "refuses_truncate": BOOLS,
    "supports_net_changes": BOOLS,
    "widened": st.sampled_from(["auto", "rewrite", "mark"]),
    "snapshot": BOOLS,
    "columns": st.sampled_from([["id", "name"], ["id", "name", "price"]]),
}
PUBLISHED: Options = {
    "insert_command": st.sampled_from(["CALL", "SQL", "NONE", "CALL put"]),
    "update_command": st.sampled_from(["SCALL", "MCALL", "XCALL", "CALL", "SQL"]),
    "delete_command": st.sampled_from(["CALL", "XCALL", "NONE"]),
    "key_updates": st.sampled_from(["update", "delete-insert"]),
    "moved_partitions": st.sampled_from(["copy", "ignore"]),
    "before_images": st.just("full"),
    "where": st.sampled_from(["id > 3", "id in (1, 2)"]),
    "columns": st.sampled_from([["id", "name"], ["id", "name", "price"]]),
}
SCRIPTED: Options = {
    "script": st.sampled_from(["select 1", "select 'ä \\ \"';\n\tselect 2\n"]),
    "script_name": st.sampled_from(["SQL", "after.sql"]),
}
PARTITIONS = ["host_name=", "host_name=a%26b%3Dc", "host_name=ann&login=bob", "login=%C3%96dd+one"]
MERGED: Options = {
    "resolver": st.sampled_from(["publisher-wins", "subscriber-wins", "later-wins:price"]),
    "column_tracking": BOOLS,
    "compensate_for_errors": BOOLS,
    "on_unseen_children": st.sampled_from(["refuse", "record"]),
    "upload_options": st.sampled_from([0, 1, 2]),
    "partition_options": st.sampled_from([0, 1]),
    "where": st.sampled_from(["id > 3", "id = 1 or id = 2"]),
    "columns": st.sampled_from([["name", "price"], ["id", "name", "price"]]),
}
TRACKED: Options = {
    "options": st.sampled_from(["insert", "insert, delete", "all"]),
    "storage": st.sampled_from(["row", "side"]),
}


def object_of(kind: str, names: st.SearchStrategy[tuple[str, ...]], options: Options) -> st.SearchStrategy[Any]:
    """Draw an object with some of its options; `columns` are those of table a alone."""
    optional = st.fixed_dictionaries({}, optional=dict(options))
    return st.builds(lambda own, given: _make(BY_NAME[kind], own, given), names, optional)


def _make(kind: Kind, names: tuple[str, ...], given: Mapping[str, Any]) -> DeclaredObject:
    is_a = names[-1] in ("a", "public.a")
    kept = {name: value for name, value in given.items() if is_a or name not in ("columns", "resolver")}
    return DeclaredObject(kind, names, kept)


TABLE = st.sampled_from(["a", "b", "c"])


@st.composite
def merges(draw: st.DrawFn) -> list[DeclaredObject]:
    """Draw publications of merge with articles, and tracked tables."""
    # A table is merged with the same options wherever it is, and not tracked beside it.
    merged = draw(st.sets(st.sampled_from(["a", "b"])))
    found = [
        draw(
            object_of(
                "merge publication",
                st.just((name,)),
                {
                    "retention_days": st.integers(0, 30),
                    "replicate_ddl": BOOLS,
                    "allow_partition_realignment": BOOLS,
                    "partitions": st.sets(st.sampled_from(PARTITIONS)).map(sorted),
                },
            )
        )
        for name in draw(st.sets(st.sampled_from(["one", 'two "2".x']), max_size=1))
    ]
    for publication in list(found):
        found += [
            draw(object_of("merge article", st.just((publication.names[0], table)), MERGED)) for table in sorted(merged)
        ]
    return found + draw(tracked())


@st.composite
def tracked(draw: st.DrawFn) -> list[DeclaredObject]:
    """Draw tracked tables."""
    tables = sorted(draw(st.sets(TABLE)))
    return [draw(object_of("tracked table", st.just((table,)), TRACKED)) for table in tables]


@st.composite
def captures(draw: st.DrawFn, lake: str = "LAKE") -> list[DeclaredObject]:
    """Draw a capture, or a publication, or both."""
    found: list[DeclaredObject] = []
    has_capture = draw(BOOLS)
    if has_capture:
        found.append(DeclaredObject(BY_NAME["capture"], (), {"lake": lake}))
        for table in sorted(draw(st.sets(TABLE))):
            instance = draw(object_of("instance", st.just((f"the_{table}",)), CAPTURED))
            given = {name: value for name, value in instance.options.items() if table == "a" or name != "columns"}
            found.append(DeclaredObject(instance.kind, instance.names, given | {"table": table}))
        names = [one.names[-1] for one in found if one.kind.name == "instance"]
        if names:
            dropped = draw(st.sets(st.sampled_from(["capture", "cleanup"])))
            found += [DeclaredObject(BY_NAME["job"], (job,), {"is_dropped": True}) for job in sorted(dropped)]
        if draw(BOOLS) and names:
            read = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
            found.append(
                DeclaredObject(BY_NAME["consumer"], ("my consumer",), {"instances": read, "limit_hours": draw(HOURS)})
            )
            # A target needs keys.
            keyed = {one.names[-1:] for one in found if one.options.get("supports_net_changes", True)}
            if chosen := [name for name in read if (name,) in keyed]:
                options: dict[str, Any] = {"instances": chosen, "path": f"{lake}_targets"}
                found.append(DeclaredObject(BY_NAME["target"], ("t",), options))
    for name in draw(st.sets(st.sampled_from(["shop", "Ödd"]), max_size=1)):
        distribution: dict[str, Any] = {} if has_capture else {"lake": lake}
        if draw(BOOLS):
            distribution["max_retention_hours"] = 9
        if distribution:
            found.append(DeclaredObject(BY_NAME["distribution"], (), distribution))
        thresholds = {"replicate_ddl": BOOLS, "latency_threshold_s": HOURS}
        found.append(draw(object_of("publication", st.just((name,)), thresholds)))
        tables = sorted(draw(st.sets(TABLE)))
        scripts = draw(st.sampled_from([{}, SCRIPTED, {"script_python": st.just("my.module:after")}]))
        found += [draw(object_of("article", st.just((name, table)), {**PUBLISHED, **scripts})) for table in tables]
        if "a" in tables:
            views = draw(st.sets(st.sampled_from(['public."b view"', "public.a_view_of_it"])))
            if views:
                # The first by name uses the second.
                found.append(DeclaredObject(BY_NAME["schema article"], (name, 'public."b view"'), {}))
            if len(views) > 1:
                found.append(DeclaredObject(BY_NAME["schema article"], (name, "public.a_view_of_it"), {}))
    return found


def text_of(objects: list[DeclaredObject], place: str) -> str:
    return write_file(as_state(objects)).replace("LAKE", place)


def check(url: str, other: str, first: str, second: str) -> None:
    """Apply a state to an empty database, its export to another one, and then a second state."""
    apply_text(url, first)
    exported = export_text(url)
    assert actions_of(plan_text(url, first, prunes=True)) == {}
    assert actions_of(plan_text(url, exported, prunes=True)) == {}

    moved = exported.replace("/one", "/other")
    apply_text(other, moved)
    assert export_text(other) == moved

    try:
        apply_text(other, second, prunes=True)
    except DeclarationImpossible:
        # Capture is not taken away below publications that stay.
        apply_text(other, "", prunes=True)
        apply_text(other, second, prunes=True)
    assert actions_of(plan_text(other, second, prunes=True)) == {}


def check_files(objects: list[DeclaredObject], later: list[DeclaredObject]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        urls = []
        for name in ("one", "other"):
            (Path(folder) / name).mkdir()
            with closing(sqlite3.connect(Path(folder) / name / "hub.db")) as program:
                program.executescript(";".join(TABLES.values()))
            urls.append(f"sqlite:///{folder}/{name}/hub.db")
        check(urls[0], urls[1], text_of(objects, folder), text_of(later, folder))


@given(merges(), merges())
@settings(max_examples=10, deadline=None, phases=PHASES)
def test_a_state_of_a_file_is_exported_as_it_was(objects: list[DeclaredObject], later: list[DeclaredObject]) -> None:
    check_files(objects, later)


@pytest.mark.exhaustive
@given(merges(), merges())
@settings(max_examples=300, deadline=None, phases=PHASES)
def test_many_states_of_files_are_exported_as_they_were(
    objects: list[DeclaredObject], later: list[DeclaredObject]
) -> None:
    check_files(objects, later)


def checking_servers(server: EmbeddedServer) -> Callable[[list[DeclaredObject], list[DeclaredObject]], None]:
    def check_databases(objects: list[DeclaredObject], later: list[DeclaredObject]) -> None:
        with (
            tempfile.TemporaryDirectory() as folder,
            fresh_database(server) as one,
            fresh_database(server) as other,
        ):
            for url in (one, other):
                with psycopg.connect(url, autocommit=True) as session:
                    session.execute(";".join([*TABLES.values(), VIEWS]))
            check(one, other, text_of(objects, f"{folder}/one"), text_of(later, f"{folder}/other"))

    return check_databases


@pytest.mark.parametrize("examples", [3, pytest.param(60, marks=pytest.mark.exhaustive)])
def test_a_state_of_a_server_is_exported_as_it_was(server: EmbeddedServer, examples: int) -> None:
    checked = given(captures(), captures())(checking_servers(server))
    settings(max_examples=examples, deadline=None, phases=PHASES)(checked)()
