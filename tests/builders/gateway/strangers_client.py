"""A client of the wire protocol as a stranger would write it, from docs/reference/wire-protocol.md alone.

    python -I strangers_client.py FILE register URL CODE
    python -I strangers_client.py FILE begin
    python -I strangers_client.py FILE sync

It imports nothing of rowtide. Tables in FILE are the client's own, with what it has to remember of the protocol in
tables `client_*`; other programs write rows. It follows no schema changes, and has no identity ranges.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import secrets
import sqlite3
import struct
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

TYPE = "application/vnd.rowtide+json"
MOST_REQUESTS = 8
UUID = (
    "lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-a' || "
    "substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))"
)
OWN = """
create table client_state (name text primary key, value text not null);
create table client_articles (nickname integer primary key, place integer, definition text, purged_lineage blob);
create table client_versions (
    article integer, rowguid text, lineage blob, columns blob, primary key (article, rowguid)
);
create table client_changes (
    article integer, rowguid text, columns text, is_new integer, is_gone integer, primary key (article, rowguid)
);
create table client_applying (at text);
"""


class Client:
    """The client's file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = sqlite3.connect(path, isolation_level=None)

    def get(self, name: str) -> Any:
        found = self.file.execute("select value from client_state where name = ?", (name,)).fetchone()
        return None if found is None else json.loads(found[0])

    def put(self, **values: Any) -> None:
        listed = [(name, json.dumps(value)) for name, value in values.items()]
        self.file.executemany("insert or replace into client_state values (?, ?)", listed)

    def ask(self, step: str, message: dict[str, Any], batches: Any = (), key: str = "") -> Any:
        """Return the answer to a request."""
        body = {"protocol": 1, "message": message, "batches": list(batches), "is_last": True}
        headers = {"Content-Type": TYPE, "Accept-Encoding": "gzip", "Rowtide-Client": "stranger/1"}
        if key:
            headers["Idempotency-Key"] = key
        if (token := self.get("token")) is not None:
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(f"{self.get('url')}/{step}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.headers["Content-Type"] == TYPE
            assert answer.headers["Rowtide-Protocol"] == "1"
            content = answer.read()
            is_packed = answer.headers["Content-Encoding"] == "gzip"
            return json.loads(gzip.decompress(content) if is_packed else content)

    def register(self, url: str, code: str) -> None:
        self.file.executescript(OWN)
        self.put(url=url)
        self.put(token=self.ask("register", {"code": code}, key=secrets.token_hex(16))["message"]["token"])

    def begin(self) -> None:
        """Take the first file."""
        said = self.ask("file", {}, key=secrets.token_hex(16))["message"]
        headers = {"Authorization": f"Bearer {self.get('token')}"}
        request = urllib.request.Request(f"{self.get('url')}/files/{said['name']}", headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            packed = answer.read()
        assert (len(packed), hashlib.sha256(packed).hexdigest()) == (said["size"], said["sha256"])
        first = self.path.with_suffix(".first")
        first.write_bytes(gzip.decompress(packed))
        self.file.execute("attach ? as first", (str(first),))
        self.file.execute("begin")
        self._take_state()
        for (definition,) in self.file.execute("select definition from client_articles order by place").fetchall():
            self._take_table(json.loads(definition))
        self.file.execute("commit")
        self.file.execute("detach first")

    def _take_state(self) -> None:
        names = "publication, hub, nickname, subid, state, session, sent, received, schema_version, schema_guid"
        row = self.file.execute(
            "select p.name, p.publisher, r.nickname, s.subid, s.replicastate, s.session, s.sentgen, s.recgen, "
            "s.schemaversion, s.schemaguid from first.sysmerge_stored_publications p, first.MSmerge_replinfo r, "
            "first.sysmerge_stored_subscriptions s where s.pubid = p.pubid and s.replnickname = p.publisher"
        ).fetchone()
        self.put(**dict(zip(names.split(", "), row, strict=True)))
        self.file.execute(
            "insert into client_articles select nickname, processing_order, definition, purged_lineage "
            "from first.sysmerge_stored_articles"
        )
        self.file.execute(
            "insert into client_versions select tablenick, rowguid, lineage, colv from first.MSmerge_stored_contents"
        )

    def _take_table(self, article: dict[str, Any]) -> None:
        table, nickname = article["table_in_files"] or article["table"], article["nickname"]
        names = [column["name"] for column in article["columns"]]
        columns = ", ".join(f'"{column["name"]}" {column["type_text"]}' for column in article["columns"])
        listed = ", ".join(f'"{name}"' for name in names)
        self.file.execute(f'create table "{table}" ({columns}, rowguid text primary key default ({UUID}))')
        self.file.execute(f'insert into "{table}" select {listed}, rowguid from first."{table}"')
        changed = " || ".join(f'(old."{name}" is not new."{name}")' for name in names)
        free = "not exists (select 1 from client_applying)"
        note = "insert into client_changes values"
        older = "on conflict (article, rowguid) do update set"
        marks = " || ".join(
            f"(substr(columns, {place}, 1) = '1' or substr(excluded.columns, {place}, 1) = '1')"
            for place in range(1, len(names) + 1)
        )
        for event, values, merging in (
            ("insert", f"new.rowguid, '{'0' * len(names)}', 1, 0", "is_gone = 0"),
            ("update", f"new.rowguid, {changed}, 0, 0", f"columns = {marks}"),
            ("delete", f"old.rowguid, '{'0' * len(names)}', 0, 1", "is_gone = 1"),
        ):
            self.file.execute(
                f'create trigger "client_{event}_{nickname}" after {event} on "{table}" when {free} '
                f"begin {note} ({nickname}, {values}) {older} {merging}; end"
            )

    def sync(self) -> None:
        """Upload what was changed, and download what the hub has."""
        proposed = self.get("proposed") or "r" + secrets.token_hex(16)
        # Stored before it is sent: a repeated request has the same.
        self.put(proposed=proposed)
        since, rounds = self.get("sent"), 0
        requested: dict[str, list[str]] = {}
        for _ in range(MOST_REQUESTS):
            generation = self._number()
            upload = {"since": since, "generation": generation, "requested": requested, "round": rounds}
            message = {"state": self._state(proposed), "upload": upload, "acknowledgement": self.get("owed")}
            answer = self.ask("sync", message, self._batches(since, generation, requested))
            said = answer["message"]
            assert said["definitions"] is None
            assert not said["must_follow"]
            terms, result = said["terms"], said["result"]
            self.put(session=terms["session"], owed=None)
            if result is None:
                since, requested = terms["since"], terms["wanted"]
                continue
            if result["generation"] == generation:
                self.put(sent=generation)
            assert not result["questions"]
            if not result["wanted"]:
                self._download(terms, said["download"], answer["batches"])
                return
            requested, rounds, since = result["wanted"], rounds + 1, generation
        raise RuntimeError("the hub wants more and more")

    def _number(self) -> int:
        """Return the generation of what was changed since the last synchronisation: the next one, if anything was."""
        (count,) = self.file.execute("select count(*) from client_changes").fetchone()
        return int(self.get("sent")) + (1 if count else 0)

    def _state(self, proposed: str) -> dict[str, Any]:
        names = "publication, subid, nickname, hub, state, session, sent, received, schema_version, schema_guid"
        listed = self.file.execute("select definition from client_articles order by nickname").fetchall()
        definitions = [definition for (definition,) in listed]
        known = {name: self.get(name) for name in names.split(", ")}
        fingerprint = hashlib.sha256("\n".join(definitions).encode()).hexdigest()[:32]
        return known | {"fingerprint": fingerprint, "proposed": proposed}

    def _articles(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        for definition, purged in self.file.execute(
            "select definition, purged_lineage from client_articles order by place"
        ).fetchall():
            yield json.loads(definition), purged

    def _batches(self, since: int, generation: int, requested: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
        """Yield rows parents first, then tombstones children first."""
        articles = list(self._articles())
        for is_gone, listed in ((0, articles), (1, articles[::-1])):
            for article, purged in listed:
                found = self.file.execute(
                    "select rowguid, columns, is_new from client_changes where article = ? and is_gone = ?",
                    (article["nickname"], is_gone),
                ).fetchall()
                if found:
                    yield self._batch(article, purged, generation, found, is_gone=bool(is_gone))

    def _batch(
        self, article: dict[str, Any], purged: bytes, generation: int, found: list[Any], *, is_gone: bool
    ) -> dict[str, Any]:
        own = entry(self.get("nickname"), generation)
        versions, rows, rowguids = [], [], []
        for rowguid, marks, is_new in found:
            lineage, columns = self._version(article, rowguid, b"" if is_new else purged)
            tracked = {place for place, mark in enumerate(marks) if mark == "1" and not is_new}
            version: dict[str, Any] = {"lineage": text(with_entry(lineage, own)), "last": text(own)}
            if article["column_tracking"]:
                version["columns"] = text(with_columns(columns, tracked, own))
            if is_gone:
                version["tombstone"] = 1
            versions.append(version)
            rowguids.append(rowguid)
            rows.append(None if is_gone else self._row(article, rowguid))
        return {
            "article": article["nickname"],
            "versions": versions,
            "places": list(range(len(versions))),
            "rowguids": ["".join(each) for each in zip(*rowguids, strict=True)],
            "columns": None if is_gone else [list(column) for column in zip(*rows, strict=True)],
        }

    def _version(self, article: dict[str, Any], rowguid: str, absent: bytes) -> tuple[bytes, bytes]:
        found = self.file.execute(
            "select lineage, columns from client_versions where article = ? and rowguid = ?",
            (article["nickname"], rowguid),
        ).fetchone()
        return (absent, b"") if found is None else (found[0], found[1] or b"")

    def _row(self, article: dict[str, Any], rowguid: str) -> list[str | None]:
        names = ", ".join(f'"{column["name"]}"' for column in article["columns"])
        table = article["table_in_files"] or article["table"]
        row = self.file.execute(f'select {names} from "{table}" where rowguid = ?', (rowguid,)).fetchone()
        return [written(value) for value in row]

    def _download(self, terms: dict[str, Any], header: dict[str, Any], batches: list[Any]) -> None:
        """Write what the hub has sent and what is left of it, and what it has of ours, in one transaction."""
        received = list(batches)
        while len(received) < header["batches"]:
            more = {"session": terms["session"], "generation": header["generation"], "first": len(received)}
            received += self.ask("more", more)["batches"]
        moves = {nickname: each for nickname, each in header["moves"].items() if any(each.values())}
        said = {"session": terms["session"], "mark": terms["mark"], "received": header["generation"], "moves": moves}
        articles = {article["nickname"]: article for article, _ in self._articles()}
        self.file.execute("begin immediate")
        self.file.execute("insert into client_applying values (datetime())")
        self._keep_own(articles)
        for batch in received:
            self._apply(articles[batch["article"]], batch)
        self.file.execute("delete from client_applying")
        self.put(state=terms["mark"], received=header["generation"], proposed=None, owed=None if moves else said)
        self.file.execute("commit")
        if moves:
            self.ask("acknowledge", said)

    def _keep_own(self, articles: dict[int, dict[str, Any]]) -> None:
        """Store the versions of what was uploaded; the hub sends the others if it has decided otherwise."""
        own = entry(self.get("nickname"), self.get("sent"))
        purged = {article["nickname"]: lineage for article, lineage in self._articles()}
        for nickname, rowguid, marks, is_new in self.file.execute(
            "select article, rowguid, columns, is_new from client_changes"
        ).fetchall():
            lineage, columns = self._version(articles[nickname], rowguid, b"" if is_new else purged[nickname])
            tracked = {place for place, mark in enumerate(marks) if mark == "1" and not is_new}
            self._keep(nickname, rowguid, with_entry(lineage, own), with_columns(columns, tracked, own))
        self.file.execute("delete from client_changes")

    def _apply(self, article: dict[str, Any], batch: dict[str, Any]) -> None:
        nickname, table = article["nickname"], article["table_in_files"] or article["table"]
        types = [column["type_text"] for column in article["columns"]]
        for rowguid, place, values in rows_of(batch):
            version = batch["versions"][place]
            self.file.execute(f'delete from "{table}" where rowguid = ?', (rowguid,))
            if values is not None:
                row = [stored(value, type_text) for value, type_text in zip(values, types, strict=True)]
                marks = ", ".join("?" * (len(row) + 1))
                self.file.execute(f'insert into "{table}" values ({marks})', (*row, rowguid))
            lineage, columns = base64.b64decode(version["lineage"]), base64.b64decode(version.get("columns", ""))
            self._keep(nickname, rowguid, lineage, columns)

    def _keep(self, *version: Any) -> None:
        self.file.execute("insert or replace into client_versions values (?, ?, ?, ?)", version)


def rows_of(batch: dict[str, Any]) -> Iterator[tuple[str, int, list[Any] | None]]:
    """Yield the rows of a batch: the rowguid, the place of the version, and the values, None of a tombstone."""
    rowguids = ["".join(each) for each in zip(*batch["rowguids"], strict=True)]
    columns = batch["columns"]
    rows = [None] * len(rowguids) if columns is None else [list(row) for row in zip(*columns, strict=True)]
    yield from zip(rowguids, batch["places"], rows, strict=True)


def text(encoded: bytes) -> str:
    return base64.b64encode(encoded).decode()


def entry(nickname: int, version: int) -> bytes:
    """Return a change: a nickname in 6 bytes, and a generation in 4."""
    return nickname.to_bytes(6, "big") + struct.pack(">I", version)


def with_entry(lineage: bytes, own: bytes) -> bytes:
    """Return a lineage with a node's last change replaced; entries are in the order of nicknames."""
    entries = {lineage[at : at + 6]: lineage[at : at + 10] for at in range(0, len(lineage), 10)}
    entries[own[:6]] = own
    return b"".join(entries[nickname] for nickname in sorted(entries))


def with_columns(columns: bytes, places: set[int], own: bytes) -> bytes:
    """Return the last changes of columns with those of some replaced; in the order of the columns."""
    entries = {columns[at : at + 2]: columns[at : at + 12] for at in range(0, len(columns), 12)}
    entries |= {struct.pack(">H", place): struct.pack(">H", place) + own for place in places}
    return b"".join(entries[place] for place in sorted(entries))


def written(value: Any) -> str | None:
    """Return a value as PostgreSQL writes it."""
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    return None if value is None else str(value)


def stored(value: str | None, type_text: str) -> Any:
    """Return a value as the client's file has it."""
    if value is None or type_text != "bytea":
        return value
    return bytes.fromhex(value.removeprefix("\\x"))


if __name__ == "__main__":
    client = Client(Path(sys.argv[1]))
    with closing(client.file):
        steps: dict[str, Callable[..., None]] = {
            "register": client.register,
            "begin": client.begin,
            "sync": client.sync,
        }
        steps[sys.argv[2]](*sys.argv[3:])
