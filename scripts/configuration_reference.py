"""Prints docs/reference/configuration.md from the sections' dataclasses, as `make configuration-reference` keeps it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import MISSING, fields
from enum import Enum
from typing import Any, get_args, get_origin, get_type_hints

from rowtide.configuration.settings import DatabaseSettings, LogSettings, MonitorSettings

HEAD = """# The configuration file

`rowtide.toml` has databases by name, defaults of options, and where events go. It is the first that is found of

1. the file that `--config` names (`--config FILE`, before or behind a command),
2. the file that `ROWTIDE_CONFIG` names, by a path from the root; `ROWTIDE_CONFIG=/dev/null` means none,
3. `$XDG_CONFIG_HOME/rowtide/rowtide.toml`, by default `~/.config/rowtide/rowtide.toml`,
4. `/etc/rowtide/rowtide.toml`.

Only that one is read. A file of the current folder is never found: it names commands that rowtide runs. The file and
its folder must belong to the user that runs rowtide or to root, and nobody else may write to them (RT-1161); with a
symbolic link, this holds for the link's folder, too. A section, key or value that is unknown is an error (RT-1162),
which lists everything that is wrong, with its line and the nearest known name. Python programs do not read the file.

```toml
[log]
level = "info"

[defaults]
engine = "auto"
hide-keys = true

[databases.shop]
url = "postgresql://rowtide@pooler:6432/shop"
password = { file = "/run/secrets/shop" }
replication_url = "postgresql://rowtide@db1:5432/shop"
run = ["capture", "cleanup", "targets", "subscriptions"]
lake = "/data/lake"

[databases.field]
url = "sqlite:////data/field.db"
```

An option of the command line precedes a variable of the environment (`ROWTIDE_DB`, `ROWTIDE_ENGINE`), which precedes
the file, which precedes the default. `rowtide config show` lists what holds and where it comes from, as file and line,
variable, or `default`; passwords are `***`.
"""
TAIL = """
`--db shop` names a database of the file wherever a command takes a database: `--db`, `ROWTIDE_DB`, `--subscriber`,
`--distribution-db`. A name has 1 to 128 characters, without `:`, `=` and `/`. A name that the file does not have is an
error (RT-1163). A command does not take the only database of a file by itself, since it would take another one, or
none, once the file has two: write `db = "shop"` in `[defaults]`.

Replication and merge replication store subscribers' URLs without passwords. Where such a URL is that of a database of
the file, the password is read as the file says.

## `[defaults]`

Any option of a command, by its own name, without the dashes before it: `max-latency = 5`, `group = true`,
`spark-conf = ["spark.driver.memory=4g"]`. It holds for each command that has the option. An option that no command has
is an error. `yes` and `once` are given on the command line only.

## `[gateway]`

Any option of `rowtide gateway serve`, by its own name, as in `[defaults]`, which it precedes there: its hubs, where it
listens, limits, the issuer of users' tokens. An option of the command line precedes it, and `ROWTIDE_DB` precedes `db`.

```toml
[gateway]
db = ["shop"]
listen = "127.0.0.1:8090"
publication = ["orders"]
origin = ["https://app.example"]
issuer = "https://login.example"
audience = "rowtide"
jwks = "https://login.example/.well-known/jwks.json"
host-name-claim = "region"
max-requests-per-minute = 60
```

## Passwords

| written | is |
|---|---|
| `{ env = "SHOP_PW" }` | the value of a variable of the environment |
| `{ file = "/run/secrets/shop" }` | a file of one line. Others may not read it (RT-1166): it belongs to the user that runs rowtide, with mode 0600, or to root, whose group may read it (0640) |
| `{ command = ["pass", "shop"] }` | the first line that a command prints. No shell runs it; it gets no input, and ends within 10 s |

The password is read when a connection is made: one that was replaced counts for the next connection. It is in no URL,
argument, log, error or table. What cannot be read is an error that agents retry (RT-1165).

A URL of the file with a password is refused (RT-1162, as RT-7124). Without `password`, libpq finds the password as
always ([URLs and passwords](urls.md#where-passwords-belong)).

## Past a connection pooler

A pooler does not pass on replication connections (RT-1148). With `replication_url` the log is read there, with the
same password; everything else goes to `url`.

Leases, locks and settings belong to sessions, so a pooler must lend sessions: PgBouncer's `pool_mode = session`. One
that lends a session for a transaction is recognized by what it does, and what changes anything, delivers, merges or
captures is refused (RT-1147). Commands that only read work: `cdc status`, `cdc changes`, `health`, `check`,
`replication status` and the other listings. Each of their transactions sets rowtide's settings for itself, is read
only and is rolled back, so that the next program finds the session as it was. The commands of merge and
tracking need a session also to read; `health` then reports merge as unknown
([decision 39](../decisions/0039-poolers-that-lend-transactions.md)).
"""  # noqa: E501  a row of a table is a line
SECTIONS = (
    ("[log]", "Where and how events are written.", LogSettings),
    ("[monitor]", "What the monitor serves.", MonitorSettings),
    (
        "[databases.NAME]",
        "A database. Quote a name that has other characters than letters, digits, - and _.",
        DatabaseSettings,
    ),
)
FORMS = {"str": "text", "bool": "true, false", "int": "a number"}


def page() -> str:
    """Return the page's text."""
    return HEAD + "".join("\n".join(_section(*section)) for section in SECTIONS) + TAIL


def _section(title: str, said: str, kind: Any) -> Iterator[str]:
    yield f"\n## `{title}`\n\n{said}\n"
    yield "| key | value | default | says |\n|---|---|---|---|"
    types = get_type_hints(kind, include_extras=True)
    for one in fields(kind):
        value, option = get_args(types[one.name])[:2]
        default = "must be given" if one.default is MISSING else _write(one.default)
        form = (option.metavar or _form(value)).replace("|", ", ")
        yield f"| `{one.name}` | {form} | {default} | {option.help} |"
    yield ""


def _form(kind: Any) -> str:
    alternatives = [one for one in get_args(kind) if one is not type(None)]
    if len(alternatives) == 1 and len(get_args(kind)) == 2:
        kind = alternatives[0]
    if get_origin(kind) is tuple:
        return f"a list of {_form(get_args(kind)[0])}"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return ", ".join(f"`{member.value}`" for member in kind)
    return FORMS.get(getattr(kind, "__name__", ""), "[a password](#passwords)")


def _write(default: Any) -> str:
    match default:
        case None:
            return ""
        case bool():
            return f"`{str(default).lower()}`"
        case tuple():
            return ", ".join(f"`{one}`" for one in default)
        case _:
            return f"`{default}`"


if __name__ == "__main__":
    sys.stdout.write(page())
