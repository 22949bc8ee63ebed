"""Registration of a lake's tables in catalogues, where other engines' users look for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rowtide.core.exports import exporting

if TYPE_CHECKING:
    from rowtide.catalogs.entries import CatalogueKind
    from rowtide.catalogs.registration import RegisteredTable, Registration

__all__ = ["CatalogueKind", "RegisteredTable", "Registration"]

_HOMES = {
    "CatalogueKind": "rowtide.catalogs.entries",
    "RegisteredTable": "rowtide.catalogs.registration",
    "Registration": "rowtide.catalogs.registration",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = exporting(__name__, _HOMES)
