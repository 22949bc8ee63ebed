"""`rowtide health`: one overall judgement, with an exit code."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from rowtide.cli.options import AnyDb
from rowtide.cli.output.rows import notes
from rowtide.core.errors import RowtideError
from rowtide.core.secrets import redact
from rowtide.handle import connect

if TYPE_CHECKING:
    from rowtide.findings.finding import Mend
    from rowtide.health import Judgement

_UNKNOWN = 2
_WIDTH = 80
_INDENT = " " * 4


class HealthFormat(StrEnum):
    """Output formats of health."""

    TABLE = "table"
    JSON = "json"


def health(
    db: AnyDb,
    form: Annotated[HealthFormat, typer.Option("--format", help="json: one object.")] = HealthFormat.TABLE,
) -> None:
    """Judge everything that rowtide does in a database: log reader, slot, capture, cleanup, subscriptions, disks.

    Exit code 0: everything is well; 1: a warning, or something could not be examined; 2: a failure, or the database
    cannot be reached. Needs no Spark, contacts no subscriber and changes nothing.
    """
    try:
        judgements = connect(db).health()
    except RowtideError as error:
        # 1 would be a warning.
        print(error, file=sys.stderr)
        raise typer.Exit(_UNKNOWN) from error

    from rowtide.health import exit_code

    _PRINTERS[form](judgements)
    raise typer.Exit(exit_code(judgements))


def print_unwell(db: str, *areas: str) -> None:
    """Say beside a listing what of some areas is not well, and what mends it."""
    from rowtide.health import State

    for judgement in connect(db).health():
        if judgement.state is not State.WELL and judgement.area in (*areas, "database"):
            notes.print(describe(judgement), soft_wrap=True)


def describe(judgement: Judgement) -> str:
    """Return a judgement in lines of 80 columns."""
    return in_lines(judgement.state, judgement.subject, judgement.fact, judgement.mend)


def in_lines(word: str, subject: str, fact: str, mend: Mend | None) -> str:
    """Return what was found of a subject in lines of 80 columns; what mends it is never broken: it is to be copied."""
    wrapped = textwrap.fill(
        redact(fact),
        _WIDTH,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return redact("\n".join([f"{word.upper()}  {subject}", wrapped, *_describe_mend(mend)]))


def _describe_mend(mend: Mend | None) -> Iterator[str]:
    from rowtide.findings.finding import Advice

    if isinstance(mend, Advice):
        yield textwrap.fill(mend.text, _WIDTH, initial_indent=f"{_INDENT}> ", subsequent_indent=f"{_INDENT}  ")
    elif mend is not None:
        yield f"{_INDENT}> {mend}"


def _print_table(judgements: Sequence[Judgement]) -> None:
    for judgement in judgements:
        print(describe(judgement))


def _print_json(judgements: Sequence[Judgement]) -> None:
    from rowtide.health import worst

    columns = ("state", "area", "subject", "fact", "mend")
    listed = [dict(zip(columns, _fields(judgement), strict=True)) for judgement in judgements]
    print(json.dumps({"state": worst(judgements), "judgements": listed}, ensure_ascii=False))


_PRINTERS = {HealthFormat.TABLE: _print_table, HealthFormat.JSON: _print_json}


def _fields(judgement: Judgement) -> tuple[str | None, ...]:
    mend = redact(str(judgement.mend)) if judgement.mend is not None else None
    return str(judgement.state), str(judgement.area), judgement.subject, redact(judgement.fact), mend
