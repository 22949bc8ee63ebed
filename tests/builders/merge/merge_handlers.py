"""Handlers as publishers write them."""

from __future__ import annotations

from typing import ClassVar

from rowtide.merge.handlers import (
    ActionOnDataChange,
    ActionOnUpdateConflict,
    ActionOnUpdateDeleteConflict,
    BusinessLogicHandler,
    ChangeStates,
    Values,
)


class Stock(BusinessLogicHandler):
    """Quantities add up, nothing below zero is taken, what was deleted stays deleted, and names are in capitals."""

    handled_change_states = (
        ChangeStates.SUBSCRIBER_INSERTS
        | ChangeStates.SUBSCRIBER_UPDATES
        | ChangeStates.SUBSCRIBER_DELETES
        | ChangeStates.UPDATE_CONFLICTS
        | ChangeStates.PUBLISHER_UPDATE_SUBSCRIBER_DELETE_CONFLICTS
        | ChangeStates.SUBSCRIBER_UPDATE_PUBLISHER_DELETE_CONFLICTS
    )
    told: ClassVar[list[str]] = []

    def initialize(self, publication: str, subscriber: str, article: str) -> None:
        self.told.append(f"{publication} {article} {'from' * bool(subscriber)}")

    def insert_handler(self, row: Values) -> tuple[ActionOnDataChange, Values | None]:
        return ActionOnDataChange.ACCEPT_CUSTOM_DATA, row | {"name": (row["name"] or "").upper()}

    def update_handler(self, row: Values, publisher_row: Values) -> tuple[ActionOnDataChange, Values | None]:
        assert publisher_row["id"] == row["id"]
        if int(row["qty"] or 0) < 0:
            return ActionOnDataChange.REJECT_DATA, None
        return ActionOnDataChange.ACCEPT_DATA, None

    def delete_handler(self, publisher_row: Values) -> ActionOnDataChange:
        is_kept = publisher_row["name"] == "kept"
        return ActionOnDataChange.REJECT_DATA if is_kept else ActionOnDataChange.ACCEPT_DATA

    def update_conflicts_handler(
        self, publisher_row: Values, subscriber_row: Values
    ) -> tuple[ActionOnUpdateConflict, Values | None]:
        added = int(publisher_row["qty"] or 0) + int(subscriber_row["qty"] or 0)
        return ActionOnUpdateConflict.ACCEPT_CUSTOM_CONFLICT_DATA, publisher_row | {"qty": str(added)}

    def update_delete_conflict_handler(
        self, publisher_row: Values | None, subscriber_row: Values | None
    ) -> tuple[ActionOnUpdateDeleteConflict, Values | None]:
        assert (publisher_row is None) != (subscriber_row is None)
        return ActionOnUpdateDeleteConflict.ACCEPT_DELETE, None

    def commit_handler(self) -> None:
        self.told.append("committed")


class Broken(BusinessLogicHandler):
    """Fails."""

    handled_change_states = ChangeStates.SUBSCRIBER_INSERTS | ChangeStates.UPDATE_CONFLICTS

    def insert_handler(self, row: Values) -> tuple[ActionOnDataChange, Values | None]:
        raise ValueError(f"no idea about {row['id']}")

    def update_conflicts_handler(
        self, publisher_row: Values, subscriber_row: Values
    ) -> tuple[ActionOnUpdateConflict, Values | None]:
        raise ValueError(f"no idea about {publisher_row['id']}")


class Exiting(BusinessLogicHandler):
    """Ends its process."""

    handled_change_states = ChangeStates.SUBSCRIBER_INSERTS

    def insert_handler(self, row: Values) -> tuple[ActionOnDataChange, Values | None]:
        raise SystemExit(f"no more after {row['id']}")


class Careless(BusinessLogicHandler):
    """Forgets columns."""

    handled_change_states = ChangeStates.SUBSCRIBER_INSERTS

    def insert_handler(self, row: Values) -> tuple[ActionOnDataChange, Values | None]:
        return ActionOnDataChange.ACCEPT_CUSTOM_DATA, {"id": row["id"]}


class Rounding(BusinessLogicHandler):
    """Rounds quantities down to tens."""

    handled_change_states = ChangeStates.SUBSCRIBER_UPDATES

    def update_handler(self, row: Values, publisher_row: Values) -> tuple[ActionOnDataChange, Values | None]:
        return ActionOnDataChange.ACCEPT_CUSTOM_DATA, row | {"qty": str(int(row["qty"] or 0) // 10 * 10)}


class Marking(BusinessLogicHandler):
    """Marks the names of rows whose quantity is given."""

    handled_change_states = ChangeStates.SUBSCRIBER_UPDATES

    def update_handler(self, row: Values, publisher_row: Values) -> tuple[ActionOnDataChange, Values | None]:
        if row["qty"] == publisher_row["qty"]:
            return ActionOnDataChange.ACCEPT_DATA, None
        return ActionOnDataChange.ACCEPT_CUSTOM_DATA, row | {"name": "marked"}
