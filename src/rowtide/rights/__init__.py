"""Which rights a role needs for a purpose, and granting them.

A purpose has grants that it needs and grants that widen what the role sees. `rowtide grant`, `rowtide check --as` and
the table in `docs/reference/grants.md` use one list (`granting`, `commands`). Granting is imported where it is used: it
needs PostgreSQL's driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.core.exports import exporting

if TYPE_CHECKING:
    from rowtide.rights.grants import Granted
    from rowtide.rights.purpose import Purpose

__all__ = ["Granted", "Purpose"]

_HOMES = {
    "Granted": "rowtide.rights.grants",
    "Purpose": "rowtide.rights.purpose",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = exporting(__name__, _HOMES)
