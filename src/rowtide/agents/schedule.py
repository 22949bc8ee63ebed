"""When a job is due: cron schedules in a time zone. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rowtide.core.values import frozen

if TYPE_CHECKING:
    from apscheduler.triggers.cron import CronTrigger

_WEEKDAY = 4
"""The index of the weekday among the fields of a cron schedule."""
_INSTANT = timedelta(microseconds=1)


@frozen
class Schedule:
    """Minute, hour, day, month, weekday, as in a crontab; weekdays also by name.

    `timezone` None: this computer's own.
    """

    text: str
    timezone: str | None = None

    def next_after(self, time: datetime) -> datetime | None:
        """Return the first due time after `time`; None if there is none.

        Raises `ValueError`, which says what is wrong with the text.
        """
        found = self._trigger().get_next_fire_time(None, time + _INSTANT)
        return found if isinstance(found, datetime) else None

    def verify(self) -> None:
        """Raise `ValueError` unless the text is a valid schedule."""
        self._trigger()

    def is_due(self, last: datetime, now: datetime) -> bool:
        """Return whether a due time has passed since `last`; several missed times count once."""
        due = self.next_after(last)
        return due is not None and due <= now

    def _trigger(self) -> CronTrigger:
        from apscheduler.triggers.cron import CronTrigger

        fields = self.text.split()
        # Cron counts weekdays from Sunday, APScheduler from Monday: a job would run on the wrong day.
        if len(fields) > _WEEKDAY and any(character.isdigit() for character in fields[_WEEKDAY]):
            raise ValueError("weekdays are written by name")
        return CronTrigger.from_crontab(self.text, timezone=self.timezone)
