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

What a device and a [gateway](../how-to/gateway.md) say to each other, for those who write a client. [Recorded requests
and answers](wire-protocol-vectors.json) are of a real synchronisation: `code`, then `requests` in their order, each
with its `step`, `body`, and `answer`; where the device's file is read or written, also with the file `before` and
`after`, as SQL that makes the tables below. Several requests of one call have `before` at the first one of them, and
`after` at the last. `others` are recordings of what happens rarely, each of a hub of its own: `parents` and children,
with a delete from the hub; `refusals` of either side, and a row that is `wanted`; rows `leaving` the partition; a
download with `more` batches; `generations` above 9; `follow`; a `restored` file; and values of `types`, also of other
storage classes. An error is recorded as its `problem`. This page is made from the code by `scripts/wire_reference.py`.

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

Fields that may lack have the value that says nothing: 0, false, "", null, an empty list or object; `exchange` is 3. A
field may be null only where the tables below say so. Unknown fields are refused (RT-8411), as is anything of another
type. Any request may be repeated: it has the same effect. A repeated `sync` may have more rows and a higher
`upload.generation` than the lost one. A request that the client has cut off may be committed all the same. An answer
that is not of status 200, of this content type, and with a header `Rowtide-Protocol` is not a gateway's.

The least that a `sync` says is this; without changes, `batches` is empty:

```json
{"protocol": 1, "is_last": true, "batches": [], "message": {
  "state": {"publication": "shop", "subid": "2441936c-c617-44fb-b31b-df593c5d1cf1", "nickname": 35605857102800,
    "hub": 50447826364489, "state": "33af63bf4a5195013dbf504ab0c155c4", "session": 0, "sent": 0, "received": 1,
    "schema_version": 1, "schema_guid": "0b06e738-2caf-4018-acea-3fda350e3d4b",
    "fingerprint": "8eb2f87b0a713f5afa517caebe80a34d", "proposed": "r539e698de67352e715df017e028c789a"},
  "upload": {"since": 0, "generation": 0}}}
```

A request has at most 64 MiB, 256 MiB unpacked, and 100,000 rows, unless the gateway's operator has set [other
limits](../how-to/gateway.md#limits). An answer to `sync` and `more` is full with 20,000 rows or 8 MiB of values: it
ends with the batch that exceeds either, and a batch has at most some 2,000 rows and 4 MiB, or one row. A gateway
answers within 300 seconds.

A large upload goes in parts, with `has_more` in the header of all but the last; each is committed as it is answered.
Parts of 20,000 rows or 8 MiB are good ones. Rows that the answer names as `deferred` come again with the last part,
before its own. After a part with status 413, smaller ones are sent. A client that was cut off may leave out the
versions that were confirmed. Deletes are in one part where they fit. Parts with logical records are not committed but
kept at the gateway until the last one has come: its answer names them by `kept`, which the next part has in its header.
With RT-8187 they are lost: the upload starts over.

Errors are problem documents (RFC 9457, `application/problem+json`): `code` is rowtide's number, `fact` and `hint` what
it says, `fields` what both were made of ([errors](errors.md)). The hint is for users of rowtide; a client goes by the
`code`, and by the status where it does not know the code:

| answer | |
|---|---|
| 503 RT-8181, the rest of a download is lost | `sync` again; `more` gets the same answer each time |
| 503 RT-8187, the parts of an upload are lost | begin the upload again |
| 429 RT-8413, 503 RT-8414, 503 RT-8440 (`file`: it is being made) | repeat after `Retry-After`, and up to as long again by chance |
| any other 503 | it has no `Retry-After`: repeat after a second, then after twice as long each time |
| 410 RT-8017 | the file was restored or copied, or the hub was: [the device needs a new file](../how-to/write-a-client.md#a-restored-file) |
| 410 RT-8018 | it was away longer than the retention: a `sync` with `exchange` 1 and `reinitializes` uploads what it has, then it needs a new file |
| 410 RT-8021 | its changes can no longer be compared: as with RT-8017 |
| 409 RT-8009 | another synchronisation of the device has begun: this one ends |
| 413 RT-8412 | send smaller parts |
| 400 | the client is at fault: repeating does not help |

## Values

| | |
|---|---|
| integer | a number; beyond \u00b1(2^53 - 1) a text of its digits, which is taken of any integer. Nicknames are below 2^48, those of articles below 2^31; only numbers that count may become larger |
| bytes | base64, with padding |
| value of a row | a text, or null: `""` is not null; its form is that of the column's type, below |
| `exchange` | 1: upload alone, the answer has no `download`; 2: download alone, leave out `upload`; 3: both |
| rows by article | an object: the article's nickname to a list of rowguids |
| definition of an article | a text, which a client stores and sends back as it is |

A text of a row has the form in which PostgreSQL writes the type; `type_text` names it in the article's definition:

| `type_text` | in a SQLite file | on the wire |
|---|---|---|
| `smallint`, `integer`, `bigint`, `oid` | INTEGER | digits: `-42` |
| `numeric` | INTEGER or REAL, whose lost digits are in `MSmerge_exact`; NaN as TEXT | `1.10`, `1000000`, `NaN`, `Infinity`, without an exponent |
| `real`, `double precision` | REAL; NaN as TEXT | `0.1`, `1e+300`, `NaN`, `-Infinity` |
| `boolean` | INTEGER: 1, 0 | `t`, `f`; of another integer its digits |
| `bytea` | BLOB | `\\x00ff` |
| all others: texts, `uuid`, `json`, dates and times, arrays | TEXT | the same text: `2026-11-23 19:44:00.5`, `{1,2}` ([types](merge-types.md)) |
| `any`, a column of a SQLite hub that has no type | any | SQLite's literal: `1`, `1.5`, `'it''s'`, `X'00ff'` |

SQLite stores any value in any column. A value of another storage class than the column's is its literal behind a
character 0: `X'4142'`, `'it''s'`, `-12`, `1.5`, `1e+300`, `9e999` and `-9e999` for infinity, and no others. A text
needs that only where it would be read as something else: `abc` in a column of numbers comes as it is, and is stored as
TEXT, as is a text in a `bytea` column that is not `\\x` and pairs of digits. Read these forms by code of the client,
and bind the values: a text that is pasted into SQL is an injection. Texts may have a character 0 elsewhere, too: bind
and read them with their length.

Another form, as `1.0e300`, `Inf` or `true`, is taken where the hub's type takes it, and comes down as the hub writes
it.

`MSmerge_exact` has numbers that SQLite rounds: of an article (`tablenick`), a row and a column (`name`), the `number`
that the column has, and `exact`, the text to send as long as the column still has that number. A client that writes a
downloaded number which SQLite does not give back digit by digit inserts such a row; else its next update of the row
sends the rounded number.

A batch has rows of one article, or tombstones, column by column, which gzip makes smaller:

| field | |
|---|---|
| `article` | the article's nickname |
| `versions` | each with `lineage` and `last`, and `columns`, `tombstone`, `priority` and `overrules` if there are any |
| `places` | of each row, the place of its version in `versions`, from 0 |
| `rowguids` | 36 texts: the first has the first character of each row's rowguid, and so on |
| `columns` | of each of the article's columns, in their order, a list of the rows' values; null for tombstones |
| `bases`, `parents` | of each row, if any row has some; a client may leave them out, but for articles whose `resolver` is additive, or with `renumber` |

Each row may have a version of its own; equal ones are shared to make a batch smaller. Leave out empty batches.

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
| lineage of a row | `MSmerge_stored_contents`, by `tablenick` and `rowguid`: `lineage`, `colv`; where that is NULL or there is no such row, the lineage of its tombstone in `MSmerge_stored_tombstone`, else `purged_lineage` of its article |

The columns of the tables are described in [write a client](../how-to/write-a-client.md#the-columns).

`fingerprint` is the SHA-256 of all definitions, ascending by nickname as numbers, joined by line feeds, without one at
the end: its first 32 hexadecimal digits. It stands for `definitions`, unless an answer has those of the hub.

## Versions of rows

A change is a node's nickname in 6 bytes and the number of its generation in 4, big-endian. A generation is what a
device uploads at once; its number is above those before, and `sent` is the last that the hub has. `last` is the change
that made the version. `lineage` has the last change of each node that the version includes, in the order of nicknames:
a device that changes or deletes a row puts its own change into the lineage that the row has, in place of its earlier
one if there is any. A new row has its own change alone, or puts it into `purged_lineage`, as rowtide does: the hub
takes both. `columns`, of an article with column tracking alone, has for each column that was updated its place among
the columns, from 0, in 2 bytes, and the last change of it, in the order of places: what the hub has sent, with the
device's own changes in place of those. An insert has none; an insert that was updated before it was uploaded may have
these columns, and a row that was deleted and inserted again with its rowguid has all. A row without any metadata, which
the hub may request, has `purged_lineage`, no columns, and as `last` the device's nickname with generation 0.

`tombstone` says why a row is gone: 1, a user deleted it; 5, it has left the device's partition; 6, it lost a conflict,
or could not be kept. A device sends 1. The lineage is kept, for the row may come back.

What the hub sends replaces what the device has, with its version, where its lineage includes the device's `last` of the
row, or the row is not there, or left with 5: the hub has compared both. With `overrules` it also replaces
what the device made up to that generation of its own.

## A synchronisation

1. The device stores a new mark, the letter r and 32 random hexadecimal digits, as `proposed`; a repeated request has
   the same one, until the mark is its `state`.
2. It sends `sync` with its state, and with all changes after `sent` in batches: rows parents first, then tombstones
   children first. `upload.since` is `sent`; `upload.generation` is the number of these changes, or `sent` where there
   are none; any later number does as well, and rowtide closes an empty generation at times. Rows that the answer before
   has `awaited` come too, as `upload.requested` ([rows sent again](#rows-sent-again)).
3. An answer without `result`: it sends the changes after `terms.since`, and requests with `terms.wanted`, as
   `upload.requested`. An answer whose `result.wanted` has rows: it repeats its request with these rows too, and with
   `upload.round` one higher. `result.refused` names rows for the user: others have been committed. With `must_follow`
   it stores `result.generation` as `sent`, and [follows the schema](#a-changed-schema).
4. It writes the batches of the answer, and those that `more` brings, whose `first` is the number of those that it has,
   until there are `download.batches`; rows may refer to later ones, and may have a key that another row of the download
   gives up ([write a client](../how-to/write-a-client.md#rows-that-meet)). With the last batch it stores `terms.mark`
   as its `state`, `terms.session`, `result.generation` as `sent`, and `download.generation` as `received`, in one
   transaction. A row that a program has changed since step 2 stays as it is, also one that is gone: it is uploaded next
   time, with its lineage as it is, and the hub decides. A lost download (RT-8181) begins again with step 2.
5. It acknowledges: `session`, `mark`, `received`, and `moves` as they came, without rows `gone` that have stayed. Where
   no row has moved, was refused or is accepted now, the acknowledgement may come as `acknowledgement` of the next
   `sync`; else it is sent by `acknowledge`. One that the hub has already, or that a later session has replaced, does
   nothing: it may be sent any number of times.

The batches may be written in one transaction or in several: a version that the device has is not written again, and
`received` says what is complete. Several keep the application waiting for less time; one needs nothing to be resumed.
With `repeats` in the header, versions that the device has are written again.

`moves` name rows whose place in the partition changes. `gone`: they are deleted, which their tombstones in the batches
say, too; a row of `gone` that the device still has is deleted as well, and its lineage forgotten. `returned` were about
to leave and belong to it again; `stayed` have left it, and the device keeps them: of both there is nothing to write,
and the acknowledgement names them.

### Rows sent again

Rows that the hub has not taken, as their parent is missing or a trigger has refused them, are sent again until it has.
The messages have several names for them:

| | |
|---|---|
| `result.refused` | rows of this upload, with the reason; with `is_wanted` they are to be sent again, without it the conflict is settled |
| `result.awaited` | all rows that the hub waits for after this upload: store them, and send them with the next `sync` |
| `terms.wanted` | those that it waited for before this upload |
| `result.wanted` | those of them that have not come: repeat the request with them |
| `upload.requested` | the rows that come for this reason, with their versions as they are, changed or not; a row that is gone by its tombstone, one that never was there is left out |
| `upload.round` | how often the request has been repeated for them, from 0; `is_rest` may stay false |

A client that stores nothing learns of them by `result.wanted`, with one more request.

### Rows that the device refuses

A row of the hub's that cannot be written, as a check or a trigger of the device forbids it, is put into `refused` of
the acknowledgement: a conflict that the hub records, and that its users see. Its generation counts as received all the
same.

| field | |
|---|---|
| `conflict_type` | 6: an insert has failed, 10: an update, 8: a delete; others are RT-8183 |
| `reason_code`, `reason_text` | why: rowtide gives SQLite's name and message, as `SQLITE_CONSTRAINT_UNIQUE` |
| `losing_row` | the hub's row that was refused, its values in the article's order of columns, as in a batch; null for a delete |
| `winning_row` | the device's row that stays, in the same form: the one with that rowguid, or the one that has its key; null for none |
| `losing_lineage` | the lineage that came with the refused version |
| `conflict_id` | any text: the hub makes its own of the row, the lineage, the code and the device |
| `parents`, `losing_columns` | may lack |

The device stores the row's rowguid, and names it in `state.refused` of each `sync`: the hub sends it again. Once it is
written, the acknowledgement has it in `accepted`. `is_waiting` is true as long as there are any. Rows of logical
records are refused and sent as a whole.

### A changed schema

`follow` has the device's state, with its `definitions` in full, and is answered by a [SchemaStep](#schemastep). In one
transaction the device, in this order:

1. closes its generation, and lets no program write;
2. alters each table whose definition differs, by the `number` of the columns: renames those that have another name,
   drops those that are not there any more, adds those that it lacks, as the [types](#values) are in a file; of a column
   of `by_hand` the user does it;
3. makes the tables of `added`, with their `rows` and `versions`; `included` becomes the `purged_lineage` of the
   article;
4. fills new and retyped columns with `values`: of each row its rowguid, and a value for each of these columns, in the
   order of `columns` of the article;
5. makes the triggers that note changes again, with the columns as they are now;
6. in stored column versions (`colv`, `own_columns`), moves the places of columns;
7. stores `articles` as its definitions, ascending by nickname, `version` and `guid`.

Then it begins again with step 2 of a synchronisation. The hub adds a column `phone` to `customer`:

```json
{"version": 3, "guid": "07234754-546e-4e25-a4b4-834ba9b7dc72",
  "articles": ["{\\"name\\": \\"customer\\", …, {\\"name\\": \\"phone\\", \\"type_text\\": \\"text\\", …, \\"number\\": 5}], …}", "…"],
  "by_hand": {"189210054": []}, "added": {},
  "values": {"189210054": [["01a22fcb-10f3-7000-8001-0c4e0a1d2b3f", ["112"]]]},
  "tables": {"189210054": {"name": "customer", "…": "…"}}, "changes": [{"schematext": "…"}]}
```

`tables` and `changes` describe the hub's tables and its history: a client needs them only to make tables of its own.

A client that does not alter tables fetches a new file instead: it has uploaded all, as `result.generation` says, so
that a `file` with `replaces` loses nothing that was not written meanwhile. Programs must not write from the `sync`
until the new file is in place; what the hub has refused is set aside before. The device has another nickname and
`subid` then.

### Parts that a client may leave out

| | comes with |
|---|---|
| `numberings`, `ranges` | articles with an `identity_range` in their definition |
| `questions`, `tops`, `kept` | logical records |
| `bases` | articles with an additive resolver |
| `parents` | the hub looks for parents itself; needed with `renumber` |
| `damages`, `counts`, `seconds` | never needed: what is shown to the hub's users |
| `unsent` | columns that are at the hub alone, for the user |
| `compare`, `validate`, `pending` | never needed |

`ranges` say which keys a device may give to new rows. A client whose tables get no keys of their own leaves out
`numberings`.

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
