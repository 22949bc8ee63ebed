"""Errors of the configuration file."""

from __future__ import annotations

from rowtide.core.errors import Denied, Invalid, NotFound, RowtideError


class ConfigurationNotRead(RowtideError, number=1160):
    """The configuration file cannot be read, or is not TOML."""

    fact = "the configuration file {path} cannot be read: {reason}"
    hint = "Correct it, or name another one with --config or ROWTIDE_CONFIG; ROWTIDE_CONFIG=/dev/null means none."
    path: str
    reason: str


class ConfigurationNotTrusted(Denied, number=1161):
    """Others may change the configuration file: it names commands that rowtide runs."""

    fact = "the configuration file {path} is not trusted: {reason}"
    hint = """It and its folder must belong to the user that runs rowtide or to root, and nobody else may write to them:
        chown and `chmod go-w` do that."""
    path: str
    reason: str


class ConfigurationInvalid(Invalid, number=1162):
    """The configuration file says what it may not say; everything that is wrong is listed."""

    fact = "the configuration file {path} is not valid: {problems}"
    hint = "docs/reference/configuration.md lists what it may have."
    path: str
    problems: str


class DatabaseNameUnknown(NotFound, number=1163):
    """A database is named that the configuration file does not have."""

    fact = 'the configuration file {path} has no database "{name}"{nearest}'
    hint = "Name one of its databases ({known}), or give a URL."
    path: str
    name: str
    nearest: str
    known: str
