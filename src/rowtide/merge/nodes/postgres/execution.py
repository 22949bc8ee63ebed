"""The role that executes statements on a user's table: its triggers, defaults, checks and types are its owner's code.

A trusted owner's code runs in the session, under the search_path of the session's role: such statements name operators
and temporary tables by schema. That of another owner runs in functions of its own (`owner_functions`), which get the
statement as a text. What it does to the session's settings is undone before the next statement.

The agent alone reads and writes metadata, and never parses or compares values of types that such an owner may define:
they are texts in its staging tables.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Engine

from rowtide.core.formats import FormatNewer
from rowtide.core.values import frozen
from rowtide.databases.postgres.batching import BatchingConnection, session_of
from rowtide.databases.postgres.errors import describe, translate, translated
from rowtide.databases.postgres.functions import OWN_PATH, recorded_definition
from rowtide.databases.postgres.owner_functions import (
    DEFERRED,
    LOCKING,
    SCHEMA as OWNERS,
    Owner,
    creations,
    deferred_check,
    deferred_check_creation,
    find_deferred,
    functions_path,
    guard_places,
    owners_query,
    schema_creation,
)
from rowtide.databases.postgres.planned_code import find_planned, planned_state
from rowtide.databases.postgres.quoting import quote_body, quote_literal, quote_qualified, running
from rowtide.databases.postgres.rowguid import BY_ROLE, Filling
from rowtide.databases.postgres.session_settings import PINNED_SETTINGS, WHOLE_TABLES, pin_again
from rowtide.databases.source_table import RunAs
from rowtide.merge.articles import Article, Subscription
from rowtide.merge.definitions import SCHEMA, articles, publications, subscriptions
from rowtide.merge.errors import nodes as errors
from rowtide.merge.errors.publishing import ArticleTableNotFound
from rowtide.merge.errors.rows import NOT_UTF_8, RowOutsidePartition, RowsRefused
from rowtide.merge.nodes.postgres.metadata.node_form import FORMAT
from rowtide.merge.nodes.postgres.metadata.row_metadata import table_of

_ARTICLES, _PUBLICATIONS = (quote_qualified(SCHEMA, table.name) for table in (articles, publications))
SETTINGS = PINNED_SETTINGS | WHOLE_TABLES | {"jit": "off", "constraint_exclusion": "off"}
"""The settings of a node's sessions.

JIT is off: the planner overestimates conditions over several joins, and compiling them takes seconds. Constraint
exclusion is off: checks are the code of their tables' owners, which the planner would run.
"""
AGENT_SETTING = "rowtide.merge_agent"
"""The setting that is on in the agent's transactions."""
LOW, HIGH, ONLY = "rowtide_low", "rowtide_high", "rowtide_only"
"""The variables of the block that say which rows a try is of."""


def within(low: str, high: str, only: str) -> str:
    """Return the condition of the rows of an attempt, which means the same under every search_path."""
    return (
        f"(rowtide_place operator(pg_catalog.>=) {low} and rowtide_place operator(pg_catalog.<=) {high} "
        f"and ({only} is null or rowtide_place operator(pg_catalog.=) any ({only})))"
    )


WITHIN = within(LOW, HIGH, ONLY)
"""The condition of the rows of a try, in the block."""
_OURS = "rowtide_"
"""What the names of the agent's temporary tables begin with."""


@frozen
class Execution:
    """How statements on a table are executed: as `owner`, or if that is None as the session's role."""

    owner: Owner | None = None

    def in_block(self, statement: str) -> Sequence[str]:
        """Return the statements of a block that execute one; its condition may be `WITHIN`."""
        if self.owner is None:
            return [*_BLOCK_USERS_PATH, statement, OWN_PATH]
        return [f"perform {self.owner.executing}({_text(statement)})", *AFTER]

    def rows(self, query: str, columns: Mapping[str, str]) -> str:
        """Return a query as what follows `from`: its columns, with their types. `after` has to follow."""
        names = ", ".join(columns)
        if self.owner is None:
            return f"({query}) q ({names})"
        typed = ", ".join(f"{name} {type_}" for name, type_ in columns.items())
        return f"{self.owner.querying}({_text(query)}) q ({typed})"

    @property
    def after(self) -> Sequence[str]:
        """The statements of a block that undo what the owner's code did to the session."""
        return () if self.owner is None else AFTER

    @property
    def checking(self) -> Sequence[str]:
        """The statements of a block that check all constraints, and run deferred triggers."""
        checks = [f"perform {deferred_check(OWNERS).removeprefix('select ')}"] if self.owner is not None else []
        ended = [OWN_PATH] if self.owner is None else AFTER
        return [*checks, *_BLOCK_USERS_PATH, "set constraints all immediate", *ended]

    def statements(self, statement: str) -> Sequence[str]:
        """Return the statements that execute one without parameters, in the caller's transaction."""
        return [*functions_path(), statement, OWN_PATH] if self.owner is None else [self.alone(statement)]

    @property
    def filling(self) -> Filling:
        """How rows of the table are written in a session that is closed afterwards."""
        owner = self.owner
        if owner is None:
            return BY_ROLE
        return Filling(
            ((), [deferred_check(OWNERS)]),
            lambda statement: (
                f"select written from (select {owner.executing}({quote_literal(statement)}) as written) x "
                "where written > 0"
            ),
        )

    def alone(self, statement: str) -> str:
        """Return the block that executes a statement without parameters."""
        return as_block(self.in_block(statement))

    def write_condition(self, table: str) -> str:
        """Return the condition that a table's writer may write it: what is refused after that is about a row."""
        name, role = quote_literal(table), "current_user"
        if self.owner is not None:
            role = f"{quote_literal(self.owner.name)}::name"
        rights = " and ".join(
            f"has_table_privilege({role}, {name}, '{right}')" for right in ("insert", "update", "delete")
        )
        is_hidden = f"row_security_active({name})"
        if self.owner is not None:
            is_hidden = f"(select relrowsecurity and relforcerowsecurity from pg_class where oid = {name}::regclass)"
        return f"{rights} and not {is_hidden}"


TRUSTED = Execution()


def _read_owner(encoded: str) -> Owner:
    found = json.loads(encoded)
    flags = (found["is_trusted"], found["is_held"], found["is_ready"])
    return Owner(found["role_id"], found["role"], *flags, tuple(found["others"]), found["replaceable"])


def as_block(statements: Iterable[str]) -> str:
    """Return a block of statements as one."""
    listed = "; ".join(statements)
    return f"do {quote_body(f'begin {listed}; end')}"


def strictest(executions: Sequence[Execution]) -> Execution:
    """Return the execution of what is done to several tables together: it restores the session if any needs it."""
    return next((each for each in executions if each.owner is not None), TRUSTED)


def repairs(schemas: str | None) -> Sequence[str]:
    """Return the statements that undo what code of other roles did to a session, outside of transactions."""
    # A backslash might not be one while the statement is read.
    known = "{}" if schemas is None or "\\" in schemas else schemas.replace("'", "''")
    return [pin_again({**SETTINGS, AGENT_SETTING: "off", "rowtide.schemas": known}), as_block([_NOTHING_OF_OTHERS])]


class Executions:
    """How statements on the tables of a session are executed; where an owner is not trusted, its functions are made."""

    def __init__(self, engine: Engine, session: BatchingConnection, schemas: str | None) -> None:
        self._engine = engine
        self._session = session
        self._repairs = repairs(schemas)
        self._owners: dict[str, tuple[Owner | None, bool]] = {}
        self._ready: dict[int, Execution] = {}
        self._planned: dict[str, Sequence[str]] = {}
        self._states: dict[str, tuple[bool, str | None]] = {}
        """See `planned_state`, by table."""
        self._articles: dict[str, Article] = {}
        self._replaceable: dict[str, int] = {}
        """See `Owner`, by table."""
        self._is_suspect = False

    def request(self, listed: Sequence[Article]) -> tuple[str, Sequence[object]]:
        """Return the query of the owners of articles' tables, for `take`."""
        of_article = f"select pubid from {_ARTICLES} where nickname = given.nickname"
        is_said = f"exists (select from {_PUBLICATIONS} where run_as = 'agent' and pubid in ({of_article}))"
        query = (
            f"select given.name, row_to_json(o)::text, {is_said}, s.is_written, s.state "
            "from unnest(%s::text[], %s::integer[]) given (name, nickname) "
            f"left join ({owners_query('%s::text[]')}) o on o.name = given.name "
            f"left join ({planned_state('%s::text[]')}) s on s.name = given.name"
        )
        names = [table_of(article) for article in listed]
        return query, [names, [article.nickname for article in listed], names, names, names]

    def take(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Read the owners of tables from the rows of a request."""
        for table, encoded, runs_as_agent, is_written, state in rows:
            self._owners[table] = None if encoded is None else _read_owner(encoded), runs_as_agent
            self._states[table] = is_written, state

    def of(self, article: Article) -> Execution:
        """Return how statements on an article's table are executed.

        Raises `OwnersDiffer`, `OwnerNotHeld`, `PlannedCodeOfOwner`, `DeferredCodeOfOwner`.
        """
        owner, runs_as_agent = self._find(article)
        if owner is None or runs_as_agent:
            return TRUSTED
        if owner.others:
            raise errors.OwnersDiffer(article.qualified_name, owner.name, ", ".join(owner.others))
        if owner.is_trusted:
            self._guard_place(article, owner)
            return TRUSTED
        if not owner.is_held:
            raise errors.OwnerNotHeld(article.qualified_name, owner.name, self._session.info.user)
        self._require_own_plans([article])
        if owner.role_id not in self._ready:
            self._ready[owner.role_id] = self._make_ready(article, owner)
        return self._ready[owner.role_id]

    def require_own_plans(self, listed: Sequence[Article]) -> None:
        """Raise `PlannedCodeOfOwner` for tables that cannot be read without running code of roles not trusted."""
        unknown = [article for article in listed if table_of(article) not in self._owners]
        if unknown:
            self.take(self._session.read(self.request(unknown))[0])
        found = [(article, *self._find(article)) for article in listed]
        for article, owner, runs_as_agent in found:
            if owner is not None and owner.is_trusted and not runs_as_agent:
                self._guard_place(article, owner)
        self._require_own_plans(
            [one for one, owner, runs_as_agent in found if owner and not (runs_as_agent or owner.is_trusted)]
        )

    def _require_own_plans(self, listed: Sequence[Article]) -> None:
        self._articles.update((table_of(article), article) for article in listed)
        unknown = sorted({table_of(article) for article in listed}.difference(self._planned))
        for article in listed:
            if self._states[table_of(article)][1] is None:
                # A view in its place would call its owner's functions with the agent's rights.
                raise ArticleTableNotFound(article.qualified_name)
        if unknown:
            planned = find_planned(running(self._session), unknown)
            self._planned.update((table, planned.get(table, ())) for table in unknown)
            if self._session.is_in_transaction and (safe := [each for each in unknown if not self._planned[each]]):
                # It did not begin with their guards.
                for each in self._locks(safe):
                    self._session.execute(sql.SQL(each))
                self._check_elsewhere(safe)
        for article in listed:
            if functions := self._planned[table_of(article)]:
                raise errors.PlannedCodeOfOwner(article.qualified_name, functions[0])

    def _guard_place(self, article: Article, owner: Owner) -> None:
        table = table_of(article)
        if owner.replaceable is None or table in self._replaceable:
            return
        self._articles[table] = article
        self._replaceable[table] = owner.replaceable
        if self._session.is_in_transaction:
            # It did not begin with its guard.
            for each in self._place_guards([table]):
                self._session.execute(sql.SQL(each))

    def _place_guards(self, tables: Iterable[str]) -> Iterator[str]:
        for table in tables:
            mode = "row exclusive" if self._states[table][0] else "access share"
            yield from guard_places([(table, self._replaceable[table])], mode, TABLES_ALTERED)

    def guards(self) -> Sequence[str]:
        """Return the statements with which a transaction that reads tables begins, before it has a snapshot.

        They fail if a table whose plans were checked was altered since. An owner could otherwise make an index, or put
        a view in its place, while a lock is waited for, and its functions would run with the agent's rights.
        """
        tables = self._looked_at()
        guarded = (*self._locks(tables), self._check(tables)) if tables else ()
        return (*guarded, *self._place_guards(self._replaceable))

    def lock_in(self, session: BatchingConnection) -> None:
        """Lock and check tables as `guards` do, for another session's transaction that has a snapshot already."""
        tables = self._looked_at()
        if tables:
            for each in self._locks(tables):
                session.execute(sql.SQL(each))
            self._check_elsewhere(tables)
        for each in self._place_guards(self._replaceable):
            session.execute(sql.SQL(each))

    def suspect(self) -> None:
        """Note that a table was altered: plans are checked again before the next transaction."""
        self._is_suspect = True

    def _looked_at(self) -> Sequence[str]:
        if self._is_suspect:
            listed = [self._articles[table] for table in (*self._planned, *self._replaceable)]
            self.forget()
            self.require_own_plans(listed)
        return [table for table, functions in self._planned.items() if not functions]

    def _check_elsewhere(self, tables: Sequence[str]) -> None:
        # The catalogue as it is, which a transaction with a snapshot does not see.
        with self._engine.connect() as connection:
            session_of(connection).execute(sql.SQL(self._check(tables)))

    def _locks(self, tables: Sequence[str]) -> Sequence[str]:
        # As writing does where the role may, so that no index is made meanwhile, which a read does not keep away.
        modes: dict[str, list[str]] = {}
        for table in tables:
            modes.setdefault("row exclusive" if self._states[table][0] else "access share", []).append(table)
        return [f"lock table {', '.join(named)} in {mode} mode" for mode, named in modes.items()]

    def _check(self, tables: Sequence[str]) -> str:
        names = f"array[{', '.join(map(quote_literal, tables))}]"
        states = f"array[{', '.join(quote_literal(self._states[table][1] or '') for table in tables)}]"
        differs = (
            f"select from unnest({names}, {states}) known (name, state) "
            f"left join ({planned_state(names)}) s on s.name = known.name where s.state is distinct from known.state"
        )
        failing = f"raise exception using errcode = '{TABLES_ALTERED}', message = 'a table was altered meanwhile'"
        return f"do {quote_body(f'begin if exists ({differs}) then {failing}; end if; end')}"

    def require(self, article: Article, run_as: RunAs | None = None) -> None:
        """Raise what `of` raises; `run_as` is that of a publication which does not have the article yet."""
        if run_as is RunAs.AGENT:
            owner, _ = self._find(article)
            self._owners[table_of(article)] = owner, True
        self.of(article)

    def _find(self, article: Article) -> tuple[Owner | None, bool]:
        table = table_of(article)
        if table not in self._owners:
            self.take(self._session.read(self.request([article]))[0])
        return self._owners[table]

    def forget(self) -> None:
        """Read owners again."""
        self._owners.clear()
        self._planned.clear()
        self._replaceable.clear()
        self._states.clear()
        self._is_suspect = False
        self._ready.clear()

    def _make_ready(self, article: Article, owner: Owner) -> Execution:
        """Make an owner's functions, and let the session be restored after each transaction."""
        with translated(), self._engine.connect() as connection, connection.begin():
            session = session_of(connection)
            if found := find_deferred(running(session)):
                raise errors.DeferredCodeOfOwner(article.qualified_name, found[0])
            statements = () if owner.is_ready else creations(owner)
            for each in (LOCKING, *statements, *schema_creation(), deferred_check_creation(OWNERS)):
                session.execute(sql.SQL(each))
        self._session.put(_LOOK_AT_CATALOGUE)
        self._session.distrust([deferred_check(OWNERS)], self._repairs)
        return Execution(owner)


def _text(statement: str) -> str:
    """Return the expression of a statement's text, within a block; `WITHIN` has the block's values."""
    if WITHIN not in statement:
        return quote_literal(statement)
    marked = statement.replace("%", "%%").replace(WITHIN, within("%1$s", "%2$s", "%3$L::pg_catalog.int4[]"))
    return f"pg_catalog.format({quote_literal(marked)}, {LOW}, {HIGH}, {ONLY})"


def _performed(statement: str) -> str:
    return f"perform {statement.strip().removeprefix('select ')}"


_BLOCK_USERS_PATH = [each if each.startswith("set ") else _performed(each) for each in functions_path()]

# A session with an open snapshot sees what another has created only after it has locked something that it had not
# locked before, and a call of a function locks nothing. Creating a table always does.
_LOOK_AT_CATALOGUE = f"create temporary table if not exists pg_temp.{_OURS}locked () on commit drop"

_NOTHING_OF_OTHERS = (
    "if exists (select from pg_class where relnamespace = pg_my_temp_schema() "
    f"and left(relname, {len(_OURS)}) = '{_OURS}' and pg_get_userbyid(relowner) <> current_user) "
    "then raise exception using errcode = '42501', message = 'a temporary table of another role has a name of ours'; "
    "end if"
)
# The transaction keeps its own patience, with locks and with its program.
_PATIENCE = ("lock_timeout", "idle_in_transaction_session_timeout", "transaction_timeout")
_IN_BLOCK = {name: value for name, value in SETTINGS.items() if name not in _PATIENCE} | {AGENT_SETTING: "off"}
AFTER: Sequence[str] = (
    _performed(pin_again(_IN_BLOCK)),
    f"set local {AGENT_SETTING} = 'on'",
    _NOTHING_OF_OTHERS,
)
"""The statements of a block that follow those in which code of a role runs that is not trusted."""


OF_ROWS = ("22", "23", "42", "44", "0A", "P0", "38")
"""SQLSTATE classes of errors about a row: its values, constraints, a user's trigger."""
NO_RIGHT = "42501"
"""Of the same class as errors about a row, but mostly about the role; a user's trigger may raise it for a row."""
LOCKED = "55P03"
"""SQLSTATE of a row that another transaction has locked for too long."""
OUTSIDE = "RT819"
"""SQLSTATE of ours: a row is outside of the partition that it has to be in."""
UNKNOWN_LINES = "RT818"
"""SQLSTATE of ours: the log has entries of tables that were not expected."""
TABLES_ALTERED = "RT821"
"""SQLSTATE of ours: a table whose plans were checked was altered or replaced before a transaction began."""
_BUSY = ("40001", "40P01", "55P03", TABLES_ALTERED)
"""SQLSTATEs of conflicts with other sessions."""
_RAISE = "exec_stmt_raise"
"""The server's function that raises what a user's trigger does."""
_REPLACED = "RT817"
"""SQLSTATE of ours: another synchronisation has begun."""
_MIGRATED = "RT820"
"""SQLSTATE of ours: the node's metadata were migrated meanwhile; the message is the database, the detail the format."""


class UnexpectedLines(Exception):
    """The log has entries of tables that were not expected."""


def failure(error: Exception, subject: str, node: str) -> Exception:
    """Return our error for one that was raised at a node while working on a subject, often an article."""
    if isinstance(error, UnicodeError):
        return RowsRefused(subject, *NOT_UTF_8)
    if not isinstance(error, psycopg.Error):
        return RowsRefused(subject, type(error).__name__, " ".join(str(error).split()))
    reason, state = describe(error), error.sqlstate or ""
    if state == _REPLACED:
        return errors.SessionReplaced(error.diag.message_primary or "")
    if state == _MIGRATED:
        found = int(error.diag.message_detail or 0)
        return FormatNewer(FORMAT.store, error.diag.message_primary or node, found, FORMAT.number)
    if state == UNKNOWN_LINES:
        return UnexpectedLines()
    if state == DEFERRED:
        return errors.DeferredCodeOfOwner(subject, error.diag.message_primary or reason)
    if state == OUTSIDE:
        return RowOutsidePartition.of(subject)
    if state in _BUSY or error.diag.schema_name == SCHEMA:
        # What is known of a row was removed before it is inserted: another has inserted it since.
        return errors.NodeBusy(node, reason)
    if state.startswith(OF_ROWS) and (state != NO_RIGHT or error.diag.source_function == _RAISE):
        return RowsRefused(subject, state, error.diag.message_primary or reason)
    return translate(error)


def require_session(subscription: Subscription) -> str:
    """Return the statement that fails if another synchronisation of a subscription has begun, or if an upgrade has
    migrated the metadata since they were accepted.
    """
    table = quote_qualified(SCHEMA, subscriptions.name)
    session = f"select session from {table} where subid = {quote_literal(subscription.subid)}"
    name = quote_literal(subscription.subscriber)
    failing = f"raise exception using errcode = '{_REPLACED}', message = {name}"
    definition = f"declare d text := {recorded_definition(SCHEMA)};"
    migrated = (
        f"raise exception using errcode = '{_MIGRATED}', message = current_database()::text, "
        r"detail = substring(d from '(?i)(\d+) as number')"
    )
    is_newer = rf"substring(d from '(?i)(\d+) as least_writer')::int > {FORMAT.number}"
    body = (
        f"{definition} begin if {is_newer} then {migrated}; end if; "
        f"if ({session}) is distinct from {subscription.session} then {failing}; end if; end"
    )
    return f"do {quote_body(body)}"
