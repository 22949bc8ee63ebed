"""What a merge says of rows that a node refuses: with --hide-keys neither key nor value of them."""

from __future__ import annotations

import pytest

from builders.commands.command_lines import rowtide
from builders.merge.merged_databases import FileMember, Member, Merge
from builders.replication.said import KEY, VALUE
from rowtide.core.redaction import are_hidden

TABLE = "create table account (id text primary key, note text)"
INSERT = f"insert into account (id, note) values ('{KEY}', '{VALUE}')"
IN_FILE = f"""
create trigger refuse before insert on account when new.id like 'key%'
begin select raise(abort, 'refused {KEY} {VALUE}'); end
"""
ON_SERVER = (
    """
create function refuse() returns trigger language plpgsql as $$ begin
    raise exception 'refused % %', new.id, new.note using errcode = '23514', detail = new.note;
end $$
""",
    """
create trigger refuse before insert on account for each row when (new.id like 'key%') execute function refuse()
""",
)
_KEPT = {"MSmerge_sessions": "message", "MSmerge_retries": "reason_text", "MSmerge_conflicts_info": "reason_text"}


def refuse(member: Member) -> None:
    member.execute(*((IN_FILE,) if isinstance(member, FileMember) else ON_SERVER))


def said_by(merged: Merge, *options: str) -> str:
    """Synchronise; return what was printed, listed, and stored but for the rows of conflicts."""
    device, hub = merged.subscribers[0].url, merged.hub.url
    sync = rowtide("merge", "sync", "shop", "--subscriber", device, "--db", hub, *options)
    listed = [rowtide("merge", name, "--db", hub, "--format", "jsonl") for name in ("status", "history")]
    said = [f"{one.output}{one.errors}" for one in (sync, *listed, rowtide("health", "--db", hub))]
    for member in merged.members:
        schema = "" if isinstance(member, FileMember) else "rowtide_merge."
        said += [f'{member.execute(f"""select {column} from {schema}"{table}" """)}' for table, column in _KEPT.items()]
    return "\n".join(said)


def found_in(text: str) -> set[str]:
    return {secret for secret in (KEY, VALUE) if secret in text}


@pytest.mark.parametrize("uploads", [True, False])
def test_a_refused_row_shows_neither_key_nor_value(merged: Merge, *, uploads: bool) -> None:
    merged.begin(TABLE, account={})
    writing, refusing = merged.subscribers[0], merged.hub
    if not uploads:
        writing, refusing = refusing, writing
    refuse(refusing)
    writing.execute(INSERT)
    assert found_in(said_by(merged, "--hide-keys", "--debug")) == set()
    assert found_in(said_by(merged, "--debug")) == {KEY, VALUE}
    assert not are_hidden()


def test_a_conflict_keeps_its_rows_and_is_told_without_them(merged: Merge) -> None:
    merged.begin(TABLE, account={})
    merged.subscribers[0].execute(INSERT)
    merged.hub.execute(INSERT.replace(VALUE, "other"))
    assert found_in(said_by(merged, "--hide-keys", "--debug")) == set()
    kept = [row for _, _, losing, winning, _ in merged.conflicts() for row in (losing, winning) if row is not None]
    assert any(VALUE in row for row in kept)


def test_sync_all_hides_alike(merged: Merge) -> None:
    merged.begin(TABLE, account={})
    refuse(merged.hub)
    for number, device in enumerate(merged.subscribers):
        device.execute(INSERT.replace(KEY, f"{KEY}{number}"))
    outcomes = merged.merge.sync_all(hide_keys=True)
    assert [outcome.refused for outcome in outcomes] == [1, 1]
    assert found_in(repr(outcomes)) == set()
    assert found_in(said_by(merged, "--hide-keys")) == set()
