"""Keys of all advisory locks that rowtide takes, with what each protects.

PostgreSQL has two separate spaces of keys, pairs of a class and a key, and numbers of 64 bits; both are a database's
own. Processes of different versions exclude each other by these locks, some of which are written in functions of
triggers: a key that was released never changes.
"""

from __future__ import annotations

import zlib

# "rowt" in ASCII, so that nobody else's advisory locks have the class; the classes after it are "rowu", "rowv", "rowx".
_CLASS = 0x726F7774
LEASES = {name: {"class": _CLASS, "key": key} for name, key in {"log": 1, "lake": 2, "agent": 4, "source": 5}.items()}
"""Leases: to read the log, to write the lake, to run as the agent, to create or remove the source of a log."""
MEMBERS = {"class": _CLASS, "key": 3}
"""Changes of the tables that are members of the log: one transaction at a time."""
ADDING_SUBSCRIPTION = {"class": _CLASS, "key": 6}
"""Readers of the log store without a subscription: shared by transactions that add one, exclusive to remove readers."""

NAMED_LEASE_CLASS = 0x726F7775
"""Leases on objects that a user named, and of single commands: see `key_of_named_lease`."""
SUBSCRIPTION_CLASS = 0x726F7776
"""Which run delivers a subscription; the key is its agent's id."""
PUBLICATION_CLASS = 0x726F7778
"""A publication, which is not dropped while a subscription or an article is added to it: see `key_of_publication`."""

CLOCK = int.from_bytes(b"rtclock")
"""The clock, while an anchor is taken or a generation closed: see `taking_anchors` and `stop_anchors` of `clock`."""
OWNER_FUNCTIONS = int.from_bytes(b"rtowner")
"""The functions of tables' owners while they are made: two sessions could alter the same object of the catalogue."""
ACTIONS_AUDIT = int.from_bytes(b"rtaudit")
"""The audit of actions, while its table is created."""
MERGE_NODE_FORM = int.from_bytes(b"rtform")
"""The views and functions of a merge node, while a build replaces those of another one."""
MERGE_LOG = int.from_bytes(b"rtmerge")
"""The log of a merge node, while its entries are applied to the metadata."""
FIRST_IDENTITY_RANGE = int.from_bytes(b"rtident\0")
"""Plus an article's nickname: its identity range, while its sequence continues to the secondary one."""
SUBSCRIBER_TABLES = "hashtext('rowtide subscriber')"
"""An expression: the tables in which a subscriber records progress, while they are created."""
CONFLICT_COMMENTS = "pg_catalog.hashtextextended('rowtide conflict comments', 0)"
"""An expression: the comments on conflicts, while one is added."""


def key_of_named_lease(name: str) -> dict[str, int]:
    """Return the key of a lease on what has this name. Names whose keys collide merely exclude each other."""
    return {"class": NAMED_LEASE_CLASS, "key": _number_of(name)}


def key_of_publication(name: str) -> dict[str, int]:
    """Return the key of a publication of this name. Names whose keys collide merely exclude each other."""
    return {"class": PUBLICATION_CLASS, "key": _number_of(name)}


def _number_of(name: str) -> int:
    # The server's key is a signed int4.
    return zlib.crc32(name.encode()) >> 1
