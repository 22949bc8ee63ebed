"""Errors of declared state."""

from __future__ import annotations

from rowtide.core.errors import Denied, Invalid, NotFound, Retryable


class DeclarationUnreadable(Invalid, number=1185):
    """The file of a declared state is not there, or is not TOML."""

    fact = "{file} cannot be read: {problem}"
    hint = "Give a file in TOML; `rowtide export` prints one of what a database has."
    file: str
    problem: str


class DeclarationInvalid(Invalid, number=1186):
    """A file of a declared state has keys or values that do not exist; all of them are listed."""

    fact = "{file} is refused: {problems}"
    hint = "docs/reference/declared-state.md lists the keys. Nothing was changed."
    file: str
    problems: str


class DeclaredTablesMissing(NotFound, number=1187):
    """A declared state names tables, or views, functions or procedures, that the database does not have."""

    fact = "this database does not have {tables}"
    hint = "Create them first, then apply the file again. Nothing was changed."
    tables: str


class DeclarationImpossible(Denied, number=1188):
    """A difference between the file and the database is one that apply does not remove; all of them are listed."""

    fact = "the database cannot be made what the file declares: {reasons}"
    hint = "Nothing was changed. Correct the file, or do first what the reasons say."
    reasons: str


class DeclaredStateChanged(Retryable, number=1189):
    """Between the plan and its execution something else changed what the plan is about."""

    fact = "the database changed after the plan was made: {changed}"
    hint = "Nothing was changed. Apply the file again, and look at the new plan."
    changed: str


class ApplyRunning(Retryable, number=1190):
    """Another process applies a declared state to a file of this folder."""

    fact = "another process applies a declared state in the folder {folder}"
    hint = "Wait until it ends, then apply the file again. Nothing was changed."
    folder: str
