"""What becomes of a row that was changed apart, once it is known who wins. Pure.

Conflicts are decided once, at the hub. What comes of one counts as a change of the hub's, which includes both: no
node meets the conflict again, and whoever lost is given the result as any other change.
"""

from __future__ import annotations

from dataclasses import replace

from rowtide.merge.lineage import Change
from rowtide.merge.versions import RowVersion


def prevails(sent: RowVersion, known: RowVersion) -> bool:
    """Tell whether a sender's version wins by priority; the lower nickname does where both are equal."""
    if sent.priority != known.priority:
        return sent.priority > known.priority
    assert sent.last is not None
    assert known.last is not None
    return sent.last.nickname < known.last.nickname


def resolve(winner: RowVersion, loser: RowVersion, hub: int) -> RowVersion:
    """Return the winner's version as the hub's latest; all that either has changed since they parted is new in it.

    The whole row is the winner's, where columns are tracked too.
    """
    lineage = winner.lineage.joined(loser.lineage).changed_by(hub)
    decided = Change(hub, lineage.version_of(hub))
    columns = None
    if winner.columns is not None and loser.columns is not None:
        columns = dict.fromkeys({**winner.columns, **loser.columns}, decided)
    return replace(winner, lineage=lineage, last=decided, columns=columns)


def combine(sent: RowVersion, known: RowVersion) -> RowVersion:
    """Return the version of a row that has each one's columns, changed apart: the same wherever it is made."""
    assert sent.columns is not None
    assert known.columns is not None
    news = {name: change for name, change in sent.columns.items() if not known.lineage.includes(change)}
    lineage = sent.lineage.joined(known.lineage)
    return replace(
        known, lineage=lineage, columns={**known.columns, **news}, priority=max(sent.priority, known.priority)
    )
