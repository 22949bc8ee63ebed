"""What the log has to know of the features that read it: the names of tables that they keep in the source database.

The features are above the log and take these names from here where they define the tables; the log's SQL uses them when
a source is removed, when an index is dropped, and when a mark of delivery is verified.
"""

from __future__ import annotations

from rowtide.core.values import frozen


@frozen
class FeatureTable:
    """A table by its schema and name; neither needs to be quoted for its schema, `name` may."""

    schema: str
    name: str

    @property
    def path(self) -> str:
        """The table as SQL takes it."""
        return f'{self.schema}."{self.name}"' if self.name != self.name.lower() else f"{self.schema}.{self.name}"


CAPTURE = "cdc"
"""The name of capture among the features: that of sources from before features were recorded."""
CHANGE_TABLES = FeatureTable("cdc", "change_tables")
"""Capture's instances. `index_name` is the unique index that identifies an instance's rows."""
PUBLICATIONS = FeatureTable("distribution", "MSpublications")
FEATURE_TABLES = (CHANGE_TABLES, PUBLICATIONS)
"""The schemas that features create each have a table that distinguishes them from a user's schema of that name."""
ORIGINS = FeatureTable("rowtide_subscriber", "MSorigins")
"""The subscriptions that deliver into this database, with the secrets of their marks."""
