"""Commands that read the log begin to read it before their command lines are parsed.

What parses them, and what captures, takes up to half a second to import, for which the log reader does not have to
wait. Of a `replication run --once` with 1,000 transactions of 100 rows, 0.25 s pass before the fork, with one processor
idle, and 0.1 s more before the walsender begins; walsender (0.35 s of processor time), log reader (0.25 s), this
process (0.4 s, half of it imports) and subscriber (0.1 s) share the rest.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise

_READING = (["replication", "run"], ["cdc", "run"], ["cdc", "scan"])


def read_log_early(arguments: Sequence[str]) -> None:
    """Start the log reader that the command will need; one of another database ends when the command has parsed it."""
    url = find_database(arguments)
    if list(arguments[:2]) in _READING and "--help" not in arguments and url:
        from rowtide.agents.log_reader_process import begin_reading

        begin_reading(url)


def find_database(arguments: Sequence[str]) -> str | None:
    """Return the database that a command line names, else the environment's."""
    named = [after for before, after in pairwise(arguments) if before == "--db"]
    named += [argument.removeprefix("--db=") for argument in arguments if argument.startswith("--db=")]
    return named[-1] if named else os.environ.get("ROWTIDE_DB")
