"""The kinds of catalogues. Light: the command line reads them for its help."""

from __future__ import annotations

from enum import StrEnum


class CatalogueKind(StrEnum):
    """A kind of catalogue, by the interface that it answers to.

    Unity Catalog is none: its server is in no registry from which a test could run it.
    """

    HIVE = "hive"
    """A Hive metastore: by Thrift, or by JDBC the database of an embedded one."""
    ICEBERG = "iceberg"
    """A catalogue of Iceberg's REST protocol."""
