"""Networks between a hub and a subscriber that fail in the middle of a synchronisation, at any byte.

A network that tells cuts both ends off; a silent one continues acknowledging what never arrives.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

import psycopg

from builders.faults.slow_network import SlowNetwork, slow_network
from builders.merge.merged_databases import Merge, ServerMember
from rowtide.core.errors import Retryable
from rowtide.databases.postgres.silent_sessions import MERGE, end_silent
from rowtide.merge.nodes.connecting import address, open_node
from rowtide.merge.publishing.schema_following import synchronise_following

SILENCE_S = 2
MOST_BYTES = 160_000
"""A synchronisation of a few rows takes fewer, an empty one a quarter."""
_END_WITHIN_S = 30
_AT_WORK = """
select pid from pg_stat_activity
where datname = current_database() and application_name = %s and xact_start is not null
"""


def sync_over_failing_network(merge: Merge, number: int, after_bytes: int, *, tells: bool) -> bool:
    """Synchronise a subscriber by networks to the servers of the two that fail; return whether one did.

    What is raised may be retried. Sessions of a silent network are ended as another device's would: while it is silent.
    Between two files there is no network.
    """
    merge, number = merge.merge_of(number)
    subscriber = merge.subscribers[number]
    with ExitStack() as opened:
        networks: list[SlowNetwork] = []
        urls: list[str] = []
        for member in (merge.hub, subscriber):
            if not isinstance(member, ServerMember):
                urls.append(member.url)
                continue
            network = opened.enter_context(slow_network(member.url))
            network.silent_after, network.tells = after_bytes, tells
            networks.append(network)
            urls.append(network.within(SILENCE_S))
        try:
            with open_node(urls[0]) as hub, open_node(urls[1]) as node:
                synchronise_following(hub, node, merge.publication, address(subscriber.url))
        except Retryable:
            if not any(network.is_silent for network in networks):
                raise
            for network in networks:
                end_sessions(network.database_url)
            return True
        return False


def end_sessions(url: str) -> None:
    """Wait until no session of a merge is in a transaction, and end those that are silent."""
    began = time.monotonic()
    with psycopg.connect(url, autocommit=True) as looking:
        while looking.execute(_AT_WORK, [MERGE]).fetchall():
            assert time.monotonic() - began < _END_WITHIN_S
            end_silent(looking, SILENCE_S)
