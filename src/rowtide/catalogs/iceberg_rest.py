"""An Iceberg REST catalogue, in which targets have their tables: these are described, never added or removed.

The catalogue has the only pointer to a table's metadata, so a target's commit is visible immediately.

The protocol is JSON over HTTP. The token comes from the environment, and no command line, log or error shows it.
Comments that a table's metadata lacks are added by updates of the protocol.
"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

from rowtide.catalogs.entries import RegistrationAction, Resident
from rowtide.catalogs.errors import CatalogueNamespaceUnknown, CatalogueRefused, CatalogueUnreachable
from rowtide.delta.formats import OWNER

TOKEN = "ROWTIDE_CATALOG_TOKEN"  # noqa: S105 - the variable's name
_TIMEOUT_S = 60.0


class NotThere(CatalogueRefused):
    """The catalogue has nothing of that name."""


class Overtaken(CatalogueRefused):
    """Another commit came before this one."""


_REFUSALS = {404: NotThere, 409: Overtaken}


class CatalogueRequests:
    """Requests to one catalogue, at an address that its paths are below. Raises `CatalogueUnreachable`."""

    def __init__(self, place: str) -> None:
        self.place = place
        try:
            parts = urlsplit(place)
            self._host, self._port, self._path = parts.hostname, parts.port, parts.path.rstrip("/")
        except ValueError as error:
            raise CatalogueUnreachable(place, f"it is no URL: {error}") from error
        if parts.scheme not in ("http", "https") or self._host is None:
            raise CatalogueUnreachable(place, "it is no URL that begins with http:// or https://")
        if parts.username is not None:
            raise CatalogueUnreachable(place, f"its address has a user name; a token is read from {TOKEN}")
        self._is_secure = parts.scheme == "https"

    def send(
        self,
        method: str,
        action: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Any:
        """Return what is answered, None for nothing; the path is encoded, `action` what an error says was refused.

        Raises `NotThere`, `Overtaken`, `CatalogueRefused`, `CatalogueUnreachable`.
        """
        asked = f"{self._path}/{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if token := os.environ.get(TOKEN):
            headers["Authorization"] = f"Bearer {token}"
        sent = json.dumps(body).encode() if body is not None else None
        connection = self._open()
        try:
            connection.request(method, asked, sent, headers)
            answer = connection.getresponse()
            status, text = answer.status, answer.read().decode(errors="replace")
        except (OSError, HTTPException, ValueError) as error:
            # A ValueError is about the header, and would show it.
            reason = str(error) if not isinstance(error, ValueError) else f"{TOKEN} is no token"
            raise CatalogueUnreachable(self.place, reason or type(error).__name__) from None
        finally:
            connection.close()
        return self._judge(status, text, action)

    def _open(self) -> HTTPConnection:
        host = self._host or ""
        if self._is_secure:
            return HTTPSConnection(host, self._port, timeout=_TIMEOUT_S, context=ssl.create_default_context())
        return HTTPConnection(host, self._port, timeout=_TIMEOUT_S)

    def _judge(self, status: int, text: str, action: str) -> Any:
        is_done = status // 100 == 2
        try:
            found = json.loads(text) if text.strip() else None
        except ValueError as error:
            if is_done:
                raise CatalogueUnreachable(self.place, "its answer is no JSON") from error
            found = None
        if is_done:
            return found
        refused = _REFUSALS.get(status, CatalogueRefused)
        raise refused(self.place, action, _find_message(found) or f"HTTP status {status}")


def _find_message(answer: Any) -> str:
    error = answer.get("error") if isinstance(answer, dict) else None
    return str(error.get("message") or "") if isinstance(error, dict) else ""


Metadata = Mapping[str, Any]
"""A table's metadata, as the catalogue answers."""

_COMMENT = "comment"
"""The property that Spark and others show as a table's comment."""


def find_updates(metadata: Metadata, comment: str, meanings: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the updates after which a table and its columns have their comments; none if they have them.

    Columns without a meaning keep what they have. Raises `KeyError` if the metadata is not of version 2 or later.
    """
    schema = _current_schema(metadata)
    fields = [
        {**field, "doc": meanings[field["name"]]} if meanings.get(field["name"]) else field
        for field in schema["fields"]
    ]
    updates: list[dict[str, Any]] = []
    if fields != schema["fields"]:
        # Iceberg's server assigns the number itself, but Nessie refuses a number in use.
        number = max(each["schema-id"] for each in metadata["schemas"]) + 1
        described = {**schema, "schema-id": number, "fields": fields}
        updates += [
            {"action": "add-schema", "schema": described, "last-column-id": metadata["last-column-id"]},
            # The schema that was added last.
            {"action": "set-current-schema", "schema-id": -1},
        ]
    if metadata.get("properties", {}).get(_COMMENT) != comment:
        updates.append({"action": "set-properties", "updates": {_COMMENT: comment}})
    return updates


def make_requirements(metadata: Metadata) -> list[dict[str, Any]]:
    """Return the requirements that must hold when updates of this metadata are committed.

    Concurrent commits of rows are allowed, since the updates do not affect them; a column that was added meanwhile
    would be lost.
    """
    return [
        {"type": "assert-table-uuid", "uuid": metadata["table-uuid"]},
        {"type": "assert-current-schema-id", "current-schema-id": metadata["current-schema-id"]},
    ]


def _current_schema(metadata: Metadata) -> Mapping[str, Any]:
    by_id: Mapping[int, Mapping[str, Any]] = {schema["schema-id"]: schema for schema in metadata["schemas"]}
    return by_id[metadata["current-schema-id"]]


_TRIES = 5
_SEPARATOR = "%1F"
"""Between the encoded levels of a namespace, unless the catalogue says otherwise."""
_NO_CATALOGUE = "no Iceberg REST catalogue answers there: the address is what its clients have as uri, without /v1"


class IcebergRestCatalogue:
    """A namespace of an Iceberg REST catalogue. Calls raise `CatalogueUnreachable`, `CatalogueRefused`."""

    def __init__(self, requests: CatalogueRequests, path: str, namespace: str) -> None:
        """`path` is that of the namespace."""
        self.namespace = namespace
        self._requests, self._path = requests, path

    @classmethod
    def open(cls, place: str, namespace: str) -> Self:
        """Ask a catalogue how it is asked; one of its warehouses is named in the address, as `#NAME`.

        A `uri` in its configuration is ignored, so that the token is only sent where its owner meant it to go. Raises
        `CatalogueNamespaceUnknown`.
        """
        address, _, warehouse = place.partition("#")
        requests = CatalogueRequests(address)
        try:
            query = {"warehouse": warehouse} if warehouse else None
            found = requests.send("GET", "return its configuration", "v1/config", query=query)
        except NotThere as error:
            raise CatalogueRefused(place, "return its configuration", _NO_CATALOGUE) from error
        if not isinstance(found, dict):
            raise CatalogueRefused(place, "return its configuration", _NO_CATALOGUE)
        settings = {**(found.get("defaults") or {}), **(found.get("overrides") or {})}
        levels = settings.get("namespace-separator", _SEPARATOR).join(_encode(level) for level in namespace.split("."))
        path = "/".join(part for part in ("v1", settings.get("prefix", "").strip("/"), "namespaces", levels) if part)
        try:
            requests.send("GET", f"show namespace {namespace}", path)
        except NotThere as error:
            raise CatalogueNamespaceUnknown(place, namespace) from error
        return cls(requests, path, namespace)

    def describe(self, table: Resident, *, dry_run: bool) -> RegistrationAction | None:
        """Let a table have its comments, in one commit; None if it is not in this namespace.

        Its target may commit at the same time.
        """
        for _ in range(_TRIES):
            found = self._load(table.name)
            if found is None or found.get("properties", {}).get(OWNER) != table.target_id:
                return None
            try:
                updates = find_updates(found, table.comment, table.meanings)
                body = {"requirements": make_requirements(found), "updates": updates}
            except KeyError as error:
                place = self._requests.place
                raise CatalogueUnreachable(place, f"its metadata of table {table.name} lacks {error}") from error
            if not updates:
                return RegistrationAction.KEEP
            if dry_run or self._commit(table.name, body):
                return RegistrationAction.CORRECT
        raise CatalogueRefused(self._requests.place, f"describe table {table.name}", "others commit to it all the time")

    def _load(self, name: str) -> Mapping[str, Any] | None:
        try:
            # Neither old snapshots nor credentials for its files are needed.
            query = {"snapshots": "refs"}
            found = self._requests.send("GET", f"load table {name}", self._table(name), query=query)
        except NotThere:
            return None
        metadata: Mapping[str, Any] = (found or {}).get("metadata") or {}
        return metadata

    def _commit(self, name: str, body: Mapping[str, Any]) -> bool:
        try:
            self._requests.send("POST", f"describe table {name}", self._table(name), body=body)
        except (NotThere, Overtaken):
            return False
        return True

    def _table(self, name: str) -> str:
        return f"{self._path}/tables/{_encode(name)}"


def _encode(name: str) -> str:
    return quote(name, safe="")
