"""What pages show, as JSON, and its description as OpenAPI: both are made of the views' dataclasses."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from enum import Enum, StrEnum
from importlib.metadata import version
from inspect import cleandoc
from typing import Any, Union, get_args, get_origin, get_type_hints

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rowtide.actions.entries import ActionEntry, ActionKind
from rowtide.conflicts.inbox import ConflictDetail
from rowtide.core.values import frozen
from rowtide.diagnosis import State
from rowtide.monitor.views import DatabaseView, worst_of

PREFIX = "/api/v1"


@frozen
class DatabaseListed:
    """A database, with the worst state of its subjects; nothing is known before the first poll."""

    name: str
    state: str
    is_up: bool | None
    polled_at: datetime | None
    unknown_since: datetime | None
    reason: str | None


class Api:
    """Answers requests for JSON; `read_views` returns what the last polls have found, None of what was not polled."""

    def __init__(self, read_views: Callable[[], Mapping[str, DatabaseView | None]]) -> None:
        self._read_views = read_views

    def routes(self) -> list[Route]:
        """Return the routes of the interface."""
        return [
            Route(f"{PREFIX}/databases", self.list_databases),
            Route(f"{PREFIX}/databases/{{name:names}}", self.show_database),
            Route(f"{PREFIX}/openapi.json", self.describe),
        ]

    def list_databases(self, _request: Request) -> Response:
        """Return all databases."""
        listed = [_list(name, view) for name, view in self._read_views().items()]
        return JSONResponse(to_json(listed))

    def show_database(self, request: Request) -> Response:
        """Return everything that is known of a database."""
        view = self._read_views().get(request.path_params["name"])
        if view is None:
            raise HTTPException(404)
        return JSONResponse(to_json(view))

    def describe(self, _request: Request) -> Response:
        """Return the description of the interface."""
        return JSONResponse(describe_api())


def _list(name: str, view: DatabaseView | None) -> DatabaseListed:
    return DatabaseListed(
        name=name,
        state=worst_of(view.judgements) if view is not None else State.UNKNOWN,
        is_up=view.is_up if view is not None else None,
        polled_at=view.polled_at if view is not None else None,
        unknown_since=view.unknown_since if view is not None else None,
        reason=view.reason if view is not None else None,
    )


def to_json(value: Any) -> Any:
    """Return a value of a view as JSON has it: times as ISO 8601, members of enumerations as their words."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: to_json(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): to_json(one) for name, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [to_json(one) for one in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, Enum) else value


def describe_api() -> dict[str, Any]:
    """Return the OpenAPI description of the interface."""
    schemas: dict[str, Any] = {}
    listed, shown = _schema(DatabaseListed, schemas), _schema(DatabaseView, schemas)
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    entry, conflict = _schema(ActionEntry, schemas), _schema(ConflictDetail, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "rowtide monitor", "version": version("rowtide")},
        "paths": {
            f"{PREFIX}/databases": {"get": _operation("All databases.", {"type": "array", "items": listed})},
            f"{PREFIX}/databases/{{name}}": {
                "parameters": [name],
                "get": _operation("What is known of a database; 404 before its first poll.", shown),
            },
            f"{PREFIX}/databases/{{name}}/actions": {
                "parameters": [name],
                "get": _operation("The last actions on a database, newest first.", {"type": "array", "items": entry}),
                "post": _describe_acting(entry),
            },
            f"{PREFIX}/databases/{{name}}/conflicts/{{id}}": {
                "parameters": [name, {**name, "name": "id"}],
                "get": _operation("A conflict; who sees no values of rows has ••• for them.", conflict),
            },
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(summary: str, schema: Any) -> dict[str, Any]:
    content = {"application/json": {"schema": schema}}
    return {"summary": summary, "responses": {"200": {"description": summary, "content": content}}}


def _describe_acting(entry: Any) -> dict[str, Any]:
    key = {"name": "Idempotency-Key", "in": "header", "required": True, "schema": {"type": "string", "format": "uuid"}}
    asked = {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": [str(one) for one in ActionKind]},
            "arguments": {"type": "object", "additionalProperties": {"type": ["string", "boolean"]}},
        },
        "required": ["action"],
    }
    summary = "Do an action once, for each key, and return its entry; 202 while it runs."
    return {
        **_operation(summary, entry),
        "parameters": [key],
        "requestBody": {"required": True, "content": {"application/json": {"schema": asked}}},
    }


_JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}


def _schema(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type; that of a dataclass is put into `schemas`, and named."""
    arguments = get_args(kind)
    if get_origin(kind) in (Union, types.UnionType):
        return {"anyOf": [_schema(one, schemas) for one in arguments]}
    if get_origin(kind) in (tuple, Sequence):
        return {"type": "array", "items": _schema(arguments[0], schemas)}
    if get_origin(kind) is not None:
        return {"type": "object", "additionalProperties": _schema(arguments[1], schemas)}
    if is_dataclass(kind):
        name = getattr(kind, "__name__", "")
        if name not in schemas:
            schemas[name] = {}
            own = get_type_hints(kind)
            schemas[name] |= {
                "type": "object",
                "description": " ".join(cleandoc(kind.__doc__ or "").split()),
                "properties": {one: _schema(own[one], schemas) for one in own},
                "required": [one.name for one in fields(kind) if one.default is MISSING],
            }
        return {"$ref": f"#/components/schemas/{name}"}
    if kind is types.NoneType:
        return {"type": "null"}
    if kind is datetime:
        return {"type": "string", "format": "date-time"}
    if issubclass(kind, StrEnum):
        return {"type": "string", "enum": [str(one) for one in kind]}
    return {"type": _JSON_TYPES[kind]}
