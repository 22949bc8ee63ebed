"""Print docs/reference/wire-protocol.md: the addresses, and the fields of all messages, from their dataclasses."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from inspect import cleandoc
from typing import Any, Union, get_args, get_origin

from rowtide.gateway import requests
from rowtide.gateway.wire.typed_json import fields_of
from rowtide.merge.articles import Article
from rowtide.merge.inspection.device_validation import ValidateAnswer, ValidateRequest
from rowtide.merge.publishing.rows_at_hub import RowsAnswer, RowsRequest
from rowtide.merge.publishing.schema_steps import SchemaStep
from rowtide.merge.session.messages import Acknowledgement, DeviceState, SyncAnswer, SyncRequest
from rowtide.merge.session.pending_changes import PendingAtHub

STEPS: Sequence[tuple[str, Any, Any, str]] = (
    ("register", requests.DeviceRegistration, requests.RegisteredDevice, "exchange a code for the token; needs a key"),
    ("file", requests.FileRequest, requests.DeviceFile, "make the first file of a device; needs a key"),
    ("sync", SyncRequest, SyncAnswer, "upload, and the first batches of the download"),
    ("more", requests.MoreRequest, requests.More, "further batches of the download"),
    ("acknowledge", Acknowledgement, requests.Done, "what the device has; deferred to the next `sync` if it is plain"),
    ("follow", DeviceState, SchemaStep, "the hub's schema, for a device with an earlier one that has uploaded"),
    ("pending", DeviceState, PendingAtHub, "what the hub has for the device; nothing is sent or stored"),
    ("validate", ValidateRequest, ValidateAnswer, "compare rows: counts, or digests in 256 buckets by rowguid"),
    ("compare", RowsRequest, RowsAnswer, "what the hub has of rows of tables that a program has rebuilt"),
    ("wait", requests.Wait, requests.Waited, "whether the hub has something, as soon as it has, at most 60 s"),
    ("conflicts", requests.Done, requests.DeviceConflicts, "conflicts in which a change of the device lost"),
    ("logout", requests.Done, requests.Done, "the token is in force no longer"),
)
HEAD = """# Wire protocol, version 1

What a device and a [gateway](../how-to/gateway.md) say to each other, for those who write a client.
[Recorded requests and answers](wire-protocol-vectors.json) are of a real synchronisation: `code`, then `requests` in
their order, each with its `step`, `body`, and `answer`; where the device's file is read or written, also with the file
`before` and `after`, as SQL that makes the tables below. Several requests of one call have `before` at the first one of
them, and `after` at the last.
This page is made from the code by `scripts/wire_reference.py`.

## Requests

`POST https://HOST/HUB/STEP`, with these headers:

| header | |
|---|---|
| `Authorization: Bearer TOKEN` | the device's token; not for `register` |
| `Content-Type: application/vnd.rowtide+json` | |
| `Content-Encoding: gzip` | if the body is; answers are if `Accept-Encoding` says so |
| `Idempotency-Key: KEY` | of `register` and `file`: at least 16 random characters; the same for a repeated request |
| `Rowtide-Claims: JWT` | the JSON Web Token of the user, where the gateway takes them |
| `Rowtide-Client: NAME/VERSION` | what `rowtide merge devices` lists |

`GET https://HOST/HUB/files/NAME` is the file that `file` has named, gzipped: `size` and `sha256` are of what comes,
before it is unpacked. It takes one range, `Range: bytes=N-`; others are ignored, and one behind the end is RT-8445 with
status 416.

A body is a JSON object in UTF-8 with exactly these fields:

| field | |
|---|---|
| `protocol` | 1; another version is answered by RT-8410 with those that are spoken |
| `message` | below |
| `batches` | rows; an empty list where there are none |
| `is_last` | whether no more batches of a download follow, which are asked for by `more`; true in requests |

Fields that may lack have the value that says nothing: 0, false, "", null, an empty list or object; `exchange` is 3.
Unknown fields are refused (RT-8411), as is anything of another type. Any request may be repeated: it has the same
effect. An answer that is not of status 200, of this content type, and with a header `Rowtide-Protocol` is not a
gateway's.

A large upload goes in parts, with `has_more` in the header of all but the last; each is committed as it is answered.
Rows that the answer names as `deferred` come again with the last part, before its own. After a part with status 413,
smaller ones are sent. A client that was cut off may leave out the versions that were confirmed. Deletes are in one part
where they fit. Parts with logical records are not committed but kept at the gateway until the last one has come: its
answer names them by `kept`, which the next part has in its header. With RT-8187 they are lost: the upload starts over.

Errors are problem documents (RFC 9457, `application/problem+json`): `code` is rowtide's number, `fact` and `hint` what
it says, `fields` what both were made of ([errors](errors.md)). With status 429 and 503, wait as `Retry-After` says, and
up to as long again by chance.

## Values

| | |
|---|---|
| integer | a number; beyond \u00b1(2^53 - 1) a text of its digits |
| bytes | base64 |
| value of a row | a text as PostgreSQL writes it, or null: `""` is not null; a value that a file alone has, as SQLite's literal behind a character 0 |
| of these, boolean | `t`, `f`; in the file 1, 0 |
| bytea | `\\x` and hexadecimal digits; in the file a BLOB |
| integers, numeric, double precision | their digits, `1.10`, `1e+300`, `NaN`; in the file a number ([types](merge-types.md)), whose digits it may lack: these are in `MSmerge_exact` |
| other types | the text that is in the file |
| `exchange` | 1: upload alone, 2: download alone, 3: both |
| rows by article | an object: the article's nickname to a list of rowguids |
| definition of an article | a text, which a client stores and sends back as it is |

A batch has rows of one article, or tombstones, column by column, which gzip makes smaller:

| field | |
|---|---|
| `article` | the article's nickname |
| `versions` | each with `lineage` and `last`, and `columns`, `tombstone`, `priority` and `overrules` if there are any |
| `places` | of each row, the place of its version in `versions`, from 0 |
| `rowguids` | 36 texts: the first has the first character of each row's rowguid, and so on |
| `columns` | of each of the article's columns, in their order, a list of the rows' values; null for tombstones |
| `bases`, `parents` | of each row, if any row has some; a client may leave them out, but for articles whose `resolver` is additive, or with `renumber` |

A value in another form, as `1.0e300`, is taken, and comes down as the hub writes it.

## The first file

`file` names a SQLite file, which `GET` fetches gzipped. It has the published tables with their rows, each with a column
`rowguid`, a UUID in lower case that is unique in its table: a new row gets a new one, as the column's default does. A
client may work with this file as rowtide does, or take from it what follows and keep it in tables of its own:

| of a message | in the first file |
|---|---|
| `publication`, `hub` | `sysmerge_stored_publications`: `name`, `publisher` |
| `nickname` | `MSmerge_replinfo`: `nickname`; it is the device's |
| `subid`, `state`, `session`, `sent`, `received`, `schema_version`, `schema_guid` | `sysmerge_stored_subscriptions`, the row whose `replnickname` is the hub: `subid`, `replicastate`, `session`, `sentgen`, `recgen`, `schemaversion`, `schemaguid` |
| definitions | `sysmerge_stored_articles`: `definition`, JSON with the article's `nickname`, `table` (`table_in_files` where that is not empty), `columns` in the order of values, each with `name` and `type_text`, `processing_order`, parents first, and `column_tracking` |
| lineage of a row | `MSmerge_stored_contents`, by `tablenick` and `rowguid`: `lineage`, `colv`; of a row that is not there, `purged_lineage` of its article |

`fingerprint` is the SHA-256 of all definitions, in the order of nicknames, joined by line feeds: its first 32
hexadecimal digits. It stands for `definitions`, unless an answer has those of the hub.

## Versions of rows

A change is a node's nickname in 6 bytes and the number of its generation in 4, big-endian. A generation is what a
device uploads at once; its number is above those before, and `sent` is the last that the hub has. `last` is the change
that made the version. `lineage` has the last change of each node that the version includes, in the order of nicknames:
a device that changes or deletes a row puts its own change into the lineage that the row has, in place of its earlier
one if there is any; a new row has its own change alone. `columns`, of an article with column tracking alone, has for
each column that was updated its place among the columns, from 0, in 2 bytes, and the last change of it, in the order of
places; an insert has none. `tombstone` is 1 for a row that a user deleted; its lineage is kept, for the row may come
back. What the hub sends replaces what the device has, with its version: the hub has compared both.

## A synchronisation

1. The device stores a new mark, the letter r and 32 random hexadecimal digits, as `proposed`; a repeated request has
   the same one, until the mark is its `state`.
2. It sends `sync` with its state, and with all changes after `sent` in batches: rows parents first, then tombstones
   children first. `upload.since` is `sent`; `upload.generation` is the number of these changes, or `sent` where there
   are none. Rows that the answer before has `awaited` come too, as `upload.requested`, changed or not.
3. An answer without `result`: it sends the changes after `terms.since`, and requests with `terms.wanted`, as it is said
   next. An answer whose `result.wanted` has rows: it repeats its request with these rows too, as `upload.requested`,
   and `upload.round` one higher. `result.refused` names rows for the user: others have been committed. With
   `must_follow` it stores `result.generation` as `sent`, and asks `follow` with its state and its `definitions` in
   full. It makes its tables as the `columns` of `articles` say, by their `number`: adds those that it lacks, fills them
   with `values`, and removes and renames others; stores `articles` as its definitions, `version` and `guid`; and begins
   again with step 2. A client that cannot make a change says so, and keeps what it has: it has uploaded all.
4. It writes the batches of the answer, and those that `more` brings, whose `first` is the number of those that it has,
   until there are `download.batches`; rows may refer to later ones. It deletes the rows of `moves` that are `gone`, and
   forgets their lineage. In the same transaction it stores `terms.mark` as its `state`, `terms.session`,
   `result.generation` as `sent`, and `download.generation` as `received`. A row that a program has changed since step 2
   stays as it is, also one that is gone: it is uploaded next time, with its lineage as it is, and the hub decides. A
   lost download (RT-8181) begins again with step 2.
5. It acknowledges: `session`, `mark`, `received`, and `moves` as they came, without rows `gone` that have stayed. Where
   `moves` has no rows, the acknowledgement may come as `acknowledgement` of the next `sync`; else it is sent by
   `acknowledge`.

`numberings` are of articles with an `identity_range` in their definition; the answer's `ranges` say which keys a device
may give there. A client whose tables get no keys of their own leaves them out.

## Steps

| step | request | answer | |
|---|---|---|---|
"""  # noqa: E501 - a row of a table is a line
WORDS: Mapping[Any, str] = {
    str: "text",
    int: "integer",
    bool: "true, false",
    float: "number",
    bytes: "bytes",
    Article: "definition of an article",
    types.NoneType: "null",
}


def page() -> str:
    """Return the page's text."""
    return HEAD + "".join(f"{line}\n" for line in (*_steps(), "", "## Messages", *_messages()))


def _steps() -> Iterator[str]:
    for step, asked, answered, said in STEPS:
        yield f"| `{step}` | {_name(asked)} | {_name(answered)} | {said} |"


def _messages() -> Iterator[str]:
    listed: list[Any] = []
    for _, asked, answered, _said in STEPS:
        _collect(asked, listed)
        _collect(answered, listed)
    for kind in sorted(listed, key=lambda one: str(one.__name__)):
        yield ""
        yield f"### {kind.__name__}"
        yield ""
        yield " ".join(cleandoc(kind.__doc__ or "").split())
        if issubclass(kind, Enum):
            continue
        if fields_of(kind):
            yield ""
            yield "| field | value |"
            yield "|---|---|"
        for name, (of_field, may_lack) in fields_of(kind).items():
            yield f"| `{name}`{' (may lack)' if may_lack else ''} | {_describe(of_field)} |"


def _collect(kind: Any, listed: list[Any]) -> None:
    if get_args(kind):
        for one in get_args(kind):
            _collect(one, listed)
        return
    if kind in WORDS or kind in listed or kind is ... or not (is_dataclass(kind)):
        return
    made: Any = kind
    listed.append(made)
    for of_field, _ in fields_of(made).values():
        _collect(of_field, listed)


def _name(kind: Any) -> str:
    return f"[{kind.__name__}](#{kind.__name__.lower()})"


def _describe(kind: Any) -> str:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return ", or ".join(map(_describe, arguments))
    if origin is tuple and arguments[-1] is not ...:
        return f"list of {' and '.join(map(_describe, arguments))}"
    if origin in (tuple, Sequence):
        return f"list: {_describe(arguments[0])}"
    if origin is Mapping:
        return f"object: {_describe(arguments[0])} to {_describe(arguments[1])}"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return ", ".join(f"`{one.value}`" for one in kind)
    return WORDS[kind] if kind in WORDS else _name(kind)


if __name__ == "__main__":
    sys.stdout.write(page())
