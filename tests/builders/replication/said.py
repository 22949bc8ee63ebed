"""Everything that delivery has said and stored of what it did: where keys and values of rows might be."""

from __future__ import annotations

from builders.commands.command_lines import Ended, rowtide, rowtide_process
from builders.replication.replicated_databases import ReplicatedDatabase, Subscriber
from builders.replication.replicated_files import ReplicatedFile

KEY, VALUE = "key-7f3a9c", "value-91bce4"
"""A key and a value that are found wherever they are written."""
_LISTINGS = ("status", "history", "errors", "subscriptions")
_TABLES = """
select format('%I.%I', schemaname, tablename) from pg_tables
where schemaname in ('rowtide', 'distribution', 'cdc', 'rowtide_subscriber', 'rowtide_merge')
"""


def deliver(replicated: ReplicatedDatabase | ReplicatedFile, *options: str) -> Ended:
    """Deliver once, in a process of its own, whose log reader is one more."""
    url = replicated.publisher.url
    return rowtide_process("replication", "run", "--once", *options, "--db", url)


def said_by(ended: Ended, replicated: ReplicatedDatabase | ReplicatedFile) -> str:
    """Return what a run has printed, what it has left in tables, and what is listed and judged of it."""
    publisher = replicated.publisher
    kept = [
        f"{table}: {publisher.execute(f'select t::text from {table} t')}" for (table,) in publisher.execute(_TABLES)
    ]
    if isinstance(replicated.subscriber, Subscriber):
        there = replicated.subscriber
        kept += [f"{table}: {there.execute(f'select t::text from {table} t')}" for (table,) in there.execute(_TABLES)]
    listed = [rowtide("replication", name, "--db", publisher.url, "--format", "jsonl") for name in _LISTINGS]
    judged = rowtide("health", "--db", publisher.url)
    entries = [path.read_text(errors="replace") for path in publisher.lake.rglob("manifest/*") if path.is_file()]
    printed = [f"{one.output}{one.errors}" for one in (ended, *listed, judged)]
    return "\n".join([*printed, *kept, *entries])
