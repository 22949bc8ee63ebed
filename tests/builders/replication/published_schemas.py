"""What a machine publishes: tables that it changes by chance."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from builders.replication.published_tables import DOMAINS, TYPES, PublishedTable, Session, change_rows, small_table


class PublishedSchema(Protocol):
    """The tables that a machine publishes, and what is done to them by chance."""

    tables: list[PublishedTable]

    def definitions(self) -> Sequence[str]:
        """Return the statements that make the tables."""

    def begin(self, connection: Session) -> None:
        """Fill the tables, now that they are made."""

    def change_rows(self, connection: Session, table: PublishedTable) -> None:
        """Change rows of a table."""

    def new_table(self, name: str) -> PublishedTable | None:
        """Return a table to be added, with statements of its own; None if there is to be none."""

    def can_leave(self, table: PublishedTable) -> bool:
        """Tell whether a table's article can be dropped while the others stay."""

    def is_comparable(self, type_text: str) -> bool:
        """Tell whether values of a type are shown alike by a SQLite file."""


@dataclass
class SmallTables:
    """Tables of few keys and of types that every database shows alike."""

    chosen: random.Random
    tables: list[PublishedTable] = field(
        default_factory=lambda: [
            small_table("t1", c0="label"),
            small_table("t2", c1="int"),
            small_table("t0", c2="amount"),
        ]
    )

    def definitions(self) -> Sequence[str]:
        domains = [f"create domain {name} as {definition}" for name, definition in DOMAINS.items()]
        return [*domains, *(table.creation() for table in self.tables)]

    def begin(self, connection: Session) -> None:
        """They begin empty."""

    def change_rows(self, connection: Session, table: PublishedTable) -> None:
        connection.execute(change_rows(self.chosen, table).encode())

    def new_table(self, name: str) -> PublishedTable | None:
        return small_table(name, c0=self.chosen.choice(TYPES))

    def can_leave(self, table: PublishedTable) -> bool:
        return True

    def is_comparable(self, type_text: str) -> bool:
        return True
