"""The check of a database: every finding, and what of its health is not well."""

from __future__ import annotations

from rowtide.check.checking import check_database, require_nothing_stops
from rowtide.check.errors import Stopped

__all__ = ["Stopped", "check_database", "require_nothing_stops"]
