"""Every command that needs a database, with words that its parser takes: found in the program, not listed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from rowtide.cli.commands import app

GROUPS = ("cdc", "agent", "replication")
_WORDS = {
    "table": "public.item",
    "schema": "public",
    "tables": "public.item",
    "instance": "public_item",
    "publication": "shop",
    "subscriber": "postgresql://localhost/nowhere",
    "distribution_db": "postgresql://localhost/nowhere",
    "lake": "/dev/null/lake",
    "job": "capture",
    "name": "a_name",
    "consumer": "a_name",
    "instances": "public_item",
    "lsn": "0/1",
    "time": "2026-01-01T00:00:00",
    "operator": "largest less than",
    "column": "id",
    "mask": "0x01",
    "position": "1",
    "values": "maxtrans=1",
    "rule": "1",
    "key": "1",
    "max_retention_hours": "72",
    "catalogue_kind": "hive",
    "place": "thrift://127.0.0.1:1",
    "namespace": "lake",
}
"""By the parameter's name, for those that a command cannot do without."""
_ONE_OF_SEVERAL = {"tables", "instances"}
"""Arguments in place of which an option may be given."""
_OPTIONS: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("replication", "register-custom-scripting"): ("--python", "module:function")
}
"""One of several of which a command needs one."""


def list_commands() -> Iterator[tuple[str, ...]]:
    """Yield the words of each command that takes `--db`, without the database."""
    for name in GROUPS:
        yield from _walk((name,), app.commands[name])


def _walk(path: tuple[str, ...], command: Any) -> Iterator[tuple[str, ...]]:
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            yield from _walk((*path, name), below)
    elif any("--db" in parameter.opts for parameter in command.params):
        words = [word for parameter in command.params for word in _words(path, parameter)]
        yield (*path, *words, *_OPTIONS.get(path, ()))


def _words(path: tuple[str, ...], parameter: Any) -> list[str]:
    if parameter.opts == ["--yes"]:
        return ["--yes"]
    is_needed = parameter.required or (isinstance(parameter, click.Argument) and parameter.name in _ONE_OF_SEVERAL)
    if not is_needed or "--db" in parameter.opts:
        return []
    assert parameter.name in _WORDS, f"a word for {parameter.name} of {' '.join(path)}"
    word = _WORDS[parameter.name]
    return [word] if isinstance(parameter, click.Argument) else [parameter.opts[0], word]
