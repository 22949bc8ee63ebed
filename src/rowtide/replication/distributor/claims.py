"""Claims: session-level advisory locks in the distribution database say which process delivers a subscription."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import (
    Connection,
    text,
)

from rowtide.databases.postgres.advisory_locks import SUBSCRIPTION_CLASS
from rowtide.databases.postgres.query_memo import made_once
from rowtide.log.postgres.session_keepalive import SessionKeepalive
from rowtide.replication.distributor.location import distributor

APPLICATION_NAME = "rowtide replication on"
"""Prefix of the application_name of a run's session at the distribution database."""


class SubscriptionClaims:
    """The claims of one run, whose connection to the publisher commits each statement by itself."""

    def __init__(self, connection: Connection) -> None:
        self._connection = distributor(connection)
        # Without it, the server would keep the session of a run that was suspended, and its claims, for ever.
        self._heartbeat = SessionKeepalive(self._connection)
        self._held: set[int] = set()

    def are_at(self, connection: Connection) -> bool:
        """Whether they are in the distribution database to which a connection to the publisher leads now."""
        return distributor(connection) is self._connection

    def take(self, agent_ids: Iterable[int]) -> frozenset[int]:
        """Claim the subscriptions of these agents that no other session has; return those that this one has."""
        wanted = frozenset(agent_ids)
        free = sorted(wanted - self._held)
        if free:
            query = "select id from unnest(cast(:ids as int[])) id where pg_try_advisory_lock(:class, id)"
            self._held.update(
                self._connection.execute(text(query), {"ids": free, "class": SUBSCRIPTION_CLASS}).scalars()
            )
        return wanted & self._held

    def keep(self, agent_ids: Iterable[int]) -> None:
        """Release all claims but those of these agents."""
        for agent_id in self._held.difference(agent_ids):
            query = "select pg_advisory_unlock(:class, :id)"
            self._connection.execute(text(query), {"class": SUBSCRIPTION_CLASS, "id": agent_id})
            self._held.discard(agent_id)


@made_once
def list_claims(connection: Connection) -> dict[int, str]:
    """Return the host and process that deliver each claimed subscription, by agent id."""
    rows = distributor(connection).execute(
        text(_CLAIMS), {"class": SUBSCRIPTION_CLASS, "place": len(APPLICATION_NAME) + 2}
    )
    return {row.agent_id: row.holder for row in rows}


_CLAIMS = """
select l.objid::bigint::int as agent_id, substr(a.application_name, :place) as holder
from pg_locks l join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory' and l.granted and l.classid = :class
  and l.database = (select oid from pg_database where datname = current_database())
"""
