"""The audit of a PostgreSQL database: a table in a schema of its own.

The table's owner could give it code, which would run with the rights of the role that acts. So the schema belongs to
the role that owns rowtide's other schemas, whom everybody who acts trusts anyway, else to who acted first; an entry is
written only if it, and what is in it, belongs to that role, to the session's own, or to a superuser.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Row, text

from rowtide.actions.entries import (
    FORMAT,
    TABLE,
    ActionEntry,
    ActionOutcome,
    ActionRequest,
    BegunAction,
)
from rowtide.actions.errors import AuditOwnerNeeded
from rowtide.core.errors import Denied
from rowtide.core.formats import parse_definition
from rowtide.databases.postgres.advisory_locks import ACTIONS_AUDIT
from rowtide.databases.postgres.connect import open_engine
from rowtide.databases.postgres.errors import SchemaOfOthers, WritesRefused, translated
from rowtide.databases.postgres.functions import (
    AUDIT_SCHEMA,
    FEATURE_SCHEMAS,
    as_seen,
    format_creation,
    recorded_definition,
)
from rowtide.databases.postgres.quoting import join_owner, quote

SCHEMA = AUDIT_SCHEMA
UNWRITABLE = (Denied, WritesRefused)
_ACTIONS = f"{SCHEMA}.{TABLE}"


def begin(url: str, request: ActionRequest, keep_days: int) -> BegunAction:
    """Commit the entry of an action, unless its id has one, and delete those that are too old.

    Raises `AuditOwnerNeeded`, `SchemaOfOthers`, and of another format.
    """
    with translated(), open_engine(url).begin() as connection:
        state = _read_state(connection)
        if not state.is_used:
            return BegunAction(None, is_audited=False)
        if state.has_table:
            FORMAT.require_writable(f"{state.database}, schema {SCHEMA}", parse_definition(state.definition))
        else:
            _create(connection, state)
        _require_trusted(connection, state.owner)
        is_new = connection.execute(text(_BEGIN), _values_of(request)).rowcount == 1
        if is_new:
            connection.execute(text(_PURGE), {"days": keep_days})
        return BegunAction(None if is_new else _find(connection, request.action_id), is_audited=True)


def end(url: str, action_id: str, outcome: ActionOutcome, result: str, error_number: int | None) -> None:
    """Commit the end of an action that has none."""
    given = {"action_id": action_id, "outcome": outcome, "result": result, "error_number": error_number}
    with translated(), open_engine(url).begin() as connection:
        connection.execute(text(_END), given)


def purge(url: str, days: int) -> int:
    """Delete the entries that began more than a number of days ago; return how many."""
    with translated(), open_engine(url).begin() as connection:
        return connection.execute(text(_PURGE), {"days": days}).rowcount if _is_there(connection) else 0


def find_entry(url: str, action_id: str) -> ActionEntry | None:
    """Return the entry of an id."""
    with translated(), open_engine(url).connect() as connection:
        return _find(connection, action_id) if _is_there(connection) else None


def list_entries(url: str, limit: int) -> Sequence[ActionEntry]:
    """Return the last entries, newest first; none where there is no audit."""
    with translated(), open_engine(url).connect() as connection:
        if not _is_there(connection):
            return ()
        return tuple(map(_entry, connection.execute(text(as_seen(connection, _LIST, SCHEMA)), {"limit": limit})))


def _read_state(connection: Connection) -> Row[tuple[object, ...]]:
    return connection.execute(text(_STATE), {"schemas": list(FEATURE_SCHEMAS)}).one()


def _is_there(connection: Connection) -> bool:
    state = _read_state(connection)
    if state.has_table:
        FORMAT.require_readable(f"{state.database}, schema {SCHEMA}", parse_definition(state.definition))
    return bool(state.has_table)


def _create(connection: Connection, state: Row[tuple[object, ...]]) -> None:
    """Create schema and table for the owner of rowtide's schemas. Raises `AuditOwnerNeeded`."""
    owner = state.owner
    if owner is not None and not state.may_be_owner:
        raise AuditOwnerNeeded(owner, join_owner(owner, state.role, is_superusers=False))
    if owner is None and state.superuser is not None:
        raise AuditOwnerNeeded(state.superuser, join_owner(state.superuser, state.role, is_superusers=True))
    # `if not exists` is no lock: of two who act first, one would fail where the other has not committed.
    connection.execute(text(_LOCK))
    if owner is not None:
        connection.exec_driver_sql(f"set local role {quote(owner)}")
    for creation in CREATIONS:
        connection.exec_driver_sql(creation)
    if owner is not None:
        connection.exec_driver_sql("reset role")


def _require_trusted(connection: Connection, owner: str | None) -> None:
    found = connection.execute(text(_OF_OTHERS), {"owner": owner}).first()
    if found is not None:
        raise SchemaOfOthers(found.what, found.role)


def _find(connection: Connection, action_id: str) -> ActionEntry | None:
    row = connection.execute(text(as_seen(connection, _FIND, SCHEMA)), {"action_id": action_id}).first()
    return _entry(row) if row is not None else None


def _entry(row: Row[tuple[object, ...]]) -> ActionEntry:
    values = row._asdict()
    return ActionEntry(**{**values, "outcome": ActionOutcome(values["outcome"])})


def _values_of(request: ActionRequest) -> dict[str, str]:
    return {
        "action_id": request.action_id,
        "actor": request.actor,
        "channel": request.channel,
        "action": request.action,
        "subject": request.subject,
        "arguments": request.arguments_json,
    }


CREATIONS = (
    f"create schema if not exists {SCHEMA}",
    f"""create table if not exists {_ACTIONS} (
    action_id uuid primary key,
    begun_at timestamptz not null default clock_timestamp(),
    login text not null default session_user,
    actor text not null,
    channel text not null,
    action text not null,
    subject text not null,
    arguments text not null,
    outcome text not null default 'begun',
    ended_at timestamptz,
    result text,
    error_number int)""",
    f"create index if not exists {TABLE}_begun_at on {_ACTIONS} (begun_at)",
    format_creation(SCHEMA, FORMAT),
)
"""The statements that create the audit if it does not exist."""

_LOCK = f"select pg_advisory_xact_lock({ACTIONS_AUDIT})"
_STATE = f"""
with owners (name, is_superuser) as (
    select distinct r.rolname::text, r.rolsuper from pg_namespace n join pg_roles r on r.oid = n.nspowner
    where n.nspname = any(:schemas)
), owner (name) as (select min(name) from owners where not is_superuser having count(*) = 1)
select current_database()::text as database, current_user::text as role,
       exists (select from pg_namespace where nspname = any(:schemas)) as is_used,
       exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
               where n.nspname = '{SCHEMA}' and c.relname = '{TABLE}' and c.relkind = 'r') as has_table,
       {recorded_definition(SCHEMA)} as definition,
       (select name from owner) as owner,
       (select min(name) from owners
        having bool_and(is_superuser) and not pg_has_role(min(name), 'usage')) as superuser,
       (select pg_has_role(name, case when current_setting('server_version_num')::int >= 160000 then 'set'
                                      else 'member' end) from owner) as may_be_owner
"""
_OF_OTHERS = f"""
select h.what, r.rolname::text as role
from (select 'schema ' || quote_ident(nspname) as what, nspowner as owner from pg_namespace where nspname = '{SCHEMA}'
      union all
      select 'relation ' || c.oid::regclass, c.relowner from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = '{SCHEMA}' and c.relkind <> 'i') h
join pg_roles r on r.oid = h.owner
where r.rolname <> current_user and not r.rolsuper and r.rolname is distinct from cast(:owner as text) limit 1
"""
_BEGIN = f"""
insert into {_ACTIONS} (action_id, actor, channel, action, subject, arguments)
values (cast(:action_id as uuid), :actor, :channel, :action, :subject, :arguments) on conflict do nothing
"""
_END = f"""
update {_ACTIONS} set outcome = :outcome, ended_at = clock_timestamp(), result = :result, error_number = :error_number
where action_id = cast(:action_id as uuid) and ended_at is null
"""
_PURGE = f"delete from {_ACTIONS} where begun_at < now() - make_interval(days => :days)"
_COLUMNS = """action_id::text as action_id, begun_at, actor, channel, action, subject, arguments, outcome, ended_at,
result, error_number"""
_FIND = f"select {_COLUMNS} from {_ACTIONS} where action_id = cast(:action_id as uuid)"
_LIST = f"select {_COLUMNS} from {_ACTIONS} order by begun_at desc, action_id limit :limit"
