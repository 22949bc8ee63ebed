"""JSON over HTTP to a catalogue; the environment has the token, which no command line, log or error shows."""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

from rowtide.catalogs.errors import CatalogueRefused, CatalogueUnreachable

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
            # An error of values is the header's, and shows it.
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
