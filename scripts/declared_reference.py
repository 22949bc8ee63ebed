"""Prints docs/reference/declared-state.md from the options of methods, as `make declared-reference` keeps it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from rowtide.core.options import Argument, Option
from rowtide.declared.kinds import KINDS, NAME, DeclaredKey, Kind

HEAD = """# Declared state

`rowtide export` prints what rowtide does in a database as a file in TOML, and `rowtide apply` makes a database what a
file declares. How to work with it is [here](../how-to/declare-state.md). This page is made from the code by
`scripts/declared_reference.py`.

Keys are the keywords of the Python methods that add such objects, with their values and defaults; members of
enumerations are the words, or numbers, of the command line. A key that does not exist, or a value that a key cannot
have, is an error, which lists all of them (RT-1186).

| what differs | what `apply` does |
|---|---|
| the object is not there | it is added |
| a key marked *in place* | the object is changed |
| a key marked *again* | the object is dropped and added again; what that loses is said in the plan, and asked for |
| a key marked *once* | nothing: it counts when the object is added |
| a key marked *never* | nothing at all: the file is refused (RT-1188) |
| the object is not in the file | nothing; with `--prune` it is dropped |

A key that is set in place and has no value by default cannot be unset so: leaving it out makes the object again, unless
the key is marked *in place, unset*.

Tables are named as in SQL, quoted where needed, on SQLite as the file has them; a name in TOML that is more than
letters, digits, `_` and `-` is quoted: `[tracking.tables."public.orders"]`. Subscribers are named by their URLs,
without passwords (RT-1186). Relative paths are relative to the folder of the command."""

NOTES = {
    "rule": "The name is the patterns, separated by commas.",
    "instance": "The name is `capture_instance`. Without `columns` an instance has those that the table has when it is "
    "added; columns that come later are no difference. Instances of tables that a declared rule enables need not be "
    "declared, and are not pruned.",
    "job": "The name is `capture` or `cleanup`. The first table that is enabled brings both; they are never pruned. "
    "With `is_dropped` its other keys do not count.",
    "distribution": "`lake` and `log_store` where capture is not enabled. It is made with the first publication.",
    "target": "An instance that is made again makes its targets again.",
    "consumer": "An instance that is made again is named to its consumers again.",
    "article": "With subscriptions, an article that is made again needs `if_exists`: what happens to the table that "
    "subscribers have.",
    "schema article": "The name is that of a view, materialized view, function or procedure, a function's with its "
    'parameters: `"public.total(integer)"`. What it uses has to be published, too; the order does not matter.',
    "subscription": "One that is made again needs `if_exists`.",
    "merge article": "An article that is made again takes its filters and the publication's subscriptions with it.",
    "merge filter": "The name is the parent's. A filter that is dropped, or made again, makes its article again.",
    "merge subscription": "With `existing` the subscriber may have the tables; one that is made again needs it.",
}


def page() -> str:
    """Return the page's text."""
    return "\n".join([HEAD, *map(_section, KINDS), ""])


def _section(kind: Kind) -> str:
    path = ".".join("NAME" if part == NAME else part for part in kind.path)
    lines = [f"\n## `[{path}]`\n"]
    lines += [f"{kind.name.capitalize()}. {NOTES.get(kind.name, '')}".strip() + "\n"]
    for text, lost in (("Made again, it loses", kind.loses), ("Dropped, it loses", kind.drops)):
        lines += [f"{text}: {lost}.\n"] if lost else []
    if kind.keys:
        lines += ["| key | value | default | a difference | |", "|---|---|---|---|---|"]
        lines += map(_row(kind), kind.keys.values())
    return "\n".join(lines)


def _row(kind: Kind) -> Any:
    helps = dict(_find_helps(kind))

    def write(key: DeclaredKey) -> str:
        value = " ".join(f"`{word}`" for word in key.type.words) or key.type.name
        default = "required" if key.is_required else "" if key.default is None else f"`{_show(key.default)}`"
        return f"| `{key.name}` | {value} | {default} | {_effect(kind, key)} | {helps.get(key.name, '')} |"

    return write


def _effect(kind: Kind, key: DeclaredKey) -> str:
    if key.name in kind.once:
        return "once"
    if key.name in kind.changeable:
        return "in place, unset" if key.default is None and key.name in kind.clearable else "in place"
    return "never" if kind.fixed else "again"


def _find_helps(kind: Kind) -> Iterator[tuple[str, str]]:
    for options in kind.options:
        for name, hint in get_type_hints(options, include_extras=True).items():
            said = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
            for one in said:
                if isinstance(one, Option | Argument):
                    yield name, one.help.replace("|", "\\|")


def _show(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value}"'
        case list() | dict():
            return "[]" if isinstance(value, list) else "{}"
        case _:
            return str(value)


if __name__ == "__main__":
    sys.stdout.write(page())
