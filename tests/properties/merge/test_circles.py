"""Articles that follow each other in circles, with several parents, moved at random: the model says who has what."""

from __future__ import annotations

from random import Random

import pytest

from builders.merge.merged_databases import PUBLICATION, Merge
from builders.merge_machines.join_machines import Match, belonging, require_rows, rows_of
from rowtide.merge.articles import Partition

COLUMNS = {
    "post": ("id", "region", "other_id", "answer_id"),
    "answer": ("id", "post_id", "other_id"),
    "k": ("id", "answer_id", "post_id"),
}
DEFINITIONS = (
    "create table post (id integer primary key, region varchar(5), other_id integer, answer_id integer)",
    "create table answer (id integer primary key, post_id integer, other_id integer)",
    "create table k (id integer primary key, answer_id integer, post_id integer)",
)
JOINS = (
    ("post", "post", "post.other_id = parent.id"),
    ("post", "answer", "post.answer_id = answer.id"),
    ("answer", "post", "answer.post_id = post.id"),
    ("answer", "answer", "answer.other_id = parent.id or answer.other_id = parent.other_id"),
    ("k", "answer", "k.answer_id = answer.id"),
    ("k", "post", "k.post_id = post.id"),
)
MATCHES: tuple[Match, ...] = (
    ("post", "other_id", "post", "id"),
    ("post", "answer_id", "answer", "id"),
    ("answer", "post_id", "post", "id"),
    ("answer", "other_id", "answer", "id"),
    ("answer", "other_id", "answer", "other_id"),
    ("k", "answer_id", "answer", "id"),
    ("k", "post_id", "post", "id"),
)
IDS = range(1, 8)


@pytest.mark.parametrize(
    ("seeds", "steps"), [((1,), 6), pytest.param(range(2, 12), 60, marks=pytest.mark.exhaustive)], ids=["one", "many"]
)
def test_circles_move_as_the_model_says(merged: Merge, seeds: tuple[int, ...], steps: int) -> None:
    merged.hub.execute(*DEFINITIONS)
    merged.merge.add_publication(PUBLICATION)
    for table in COLUMNS:
        merged.merge.add_article(PUBLICATION, table, where="region = host_name()" if table == "post" else None)
    for child, parent, condition in JOINS:
        merged.merge.add_filter(PUBLICATION, child, parent, condition)
    device = merged.subscribers[0]
    merged.merge.add_subscription(PUBLICATION, device.url, partition=Partition("n"))
    for seed in seeds:
        random = Random(seed)
        for _ in range(steps):
            merged.hub.execute(*(change(random) for _ in range(random.randint(1, 4))))
            merged.sync()
            rows = rows_of(merged.hub, COLUMNS)
            roots = {"post": {row["id"] for row in rows["post"] if row["region"] == "n"}}
            require_rows(device, rows, belonging(rows, roots, MATCHES))
        assert merged.sync().is_quiet


def change(random: Random) -> str:
    """Return a statement that writes a row, or deletes it, or gives it another key."""
    table = random.choice(list(COLUMNS))
    row, other = random.choice(IDS), random.choice(IDS)
    what = random.random()
    if what < 0.15:
        return f"delete from {table} where id = {row}"
    if what < 0.25:
        free = f"not exists (select 1 from {table} o where o.id = {other})"
        return f"update {table} set id = {other} where id = {row} and {free}"
    values = {name: random.choice(["null", *map(str, IDS)]) for name in COLUMNS[table][1:]}
    if table == "post":
        values["region"] = random.choice(["'n'", "'s'", "null", "null"])
    written = ", ".join(f"{name} = {value}" for name, value in values.items())
    return (
        f"insert into {table} (id, {', '.join(values)}) values ({row}, {', '.join(values.values())}) "
        f"on conflict (id) do update set {written}"
    )
