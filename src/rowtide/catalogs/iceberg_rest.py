"""An Iceberg REST catalogue, in which targets have their tables: these are described, never added or removed.

The catalogue has a table's only pointer to its metadata, so that what a target commits is there at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import quote

from rowtide.catalogs.entries import Resident
from rowtide.catalogs.errors import CatalogueNamespaceUnknown, CatalogueRefused, CatalogueUnreachable
from rowtide.catalogs.plan import Action
from rowtide.catalogs.requests import CatalogueRequests, NotThere, Overtaken
from rowtide.catalogs.table_updates import find_updates, make_requirements
from rowtide.delta.formats import OWNER

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

        Raises `CatalogueNamespaceUnknown`.
        """
        address, _, warehouse = place.partition("#")
        requests = CatalogueRequests(address)
        try:
            query = {"warehouse": warehouse} if warehouse else None
            found = requests.send("GET", "tell its configuration", "v1/config", query=query)
        except NotThere as error:
            raise CatalogueRefused(place, "tell its configuration", _NO_CATALOGUE) from error
        if not isinstance(found, dict):
            raise CatalogueRefused(place, "tell its configuration", _NO_CATALOGUE)
        settings = {**(found.get("defaults") or {}), **(found.get("overrides") or {})}
        levels = settings.get("namespace-separator", _SEPARATOR).join(_encode(level) for level in namespace.split("."))
        path = "/".join(part for part in ("v1", settings.get("prefix", "").strip("/"), "namespaces", levels) if part)
        try:
            requests.send("GET", f"show namespace {namespace}", path)
        except NotThere as error:
            raise CatalogueNamespaceUnknown(place, namespace) from error
        return cls(requests, path, namespace)

    def describe(self, table: Resident, *, dry_run: bool) -> Action | None:
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
                return Action.KEEP
            if dry_run or self._commit(table.name, body):
                return Action.CORRECT
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
