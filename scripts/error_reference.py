"""Prints docs/reference/errors.md from the error classes, as `make error-reference` keeps it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator

import rowtide
from rowtide.core.errors import RowtideError

HEAD = """# Errors

Every failure is one line, `RT-number: fact. hint`, and exit code 1, or that of a command that runs on
([exit codes](exit-codes.md)); in Python it is an exception of the class that is
named, from `rowtide.errors`. Numbers of five or three digits are SQL Server's
own; four digits are rowtide's: 1xxx environment and input, 2xxx log and log store, 3xxx lake, 4xxx change data capture,
5xxx check, 6xxx change tracking, 7xxx transactional replication, 8xxx merge replication, of it
84xx devices over HTTP, 9xxx targets.
A command whose output nobody reads any more (`| head -1`) ends silently, with exit code 141, as programs that
SIGPIPE ends.
*Retried* means that a running agent tries again by itself, with growing pauses; every other error stops it.
This page is made from the code by `scripts/error_reference.py`.

| number, class | what happened | what to do | retried |
|---|---|---|---|"""


def error_classes() -> list[type[RowtideError]]:
    """Return every numbered error of the package, by number."""
    for module in pkgutil.walk_packages(rowtide.__path__, "rowtide."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return sorted(_subclasses(RowtideError), key=lambda error: (len(str(error.number)), error.number, error.__name__))


def page() -> str:
    """Return the page's text."""
    return "\n".join([HEAD, *map(_row, error_classes())]) + "\n"


def _row(error: type[RowtideError]) -> str:
    meaning = (inspect.getdoc(error) or "").splitlines()[0]
    fact, hint = (text.replace("|", "\\|") for text in (error.fact, error.hint))
    retried = "yes" if error.remedy.value == "retry" else ""
    return f"| RT-{error.number} `{error.__name__}` | {meaning} *{fact}* | {hint} | {retried} |"


def _subclasses(base: type[RowtideError]) -> Iterator[type[RowtideError]]:
    for error in base.__subclasses__():
        if "number" in vars(error):
            yield error
        yield from _subclasses(error)


if __name__ == "__main__":
    sys.stdout.write(page())
