"""The errors of targets: 90xx."""

from __future__ import annotations

from rowtide.core.errors import AlreadyExists, DataLoss, Invalid, NotFound, RowtideError
from rowtide.core.redaction import Said

_NOT_FOLLOWED = "target {target} does not follow the columns {columns} of {table}: {reason}"


class TargetUnknown(NotFound, number=9000):
    """There is no target of that name."""

    fact = "there is no target {target}"
    hint = "`rowtide cdc targets` lists them."
    target: str


class TargetExists(AlreadyExists, number=9001):
    """A target's name is in use."""

    fact = "there is a target {target} already"
    hint = "Choose another name, or run `rowtide cdc drop-target {target}` first; its tables stay."
    target: str


class TargetInvalid(Invalid, number=9002):
    """A target's definition contradicts itself or its instances."""

    fact = "target {target} cannot be defined so: {reason}"
    hint = "Change the options; docs/reference/targets.md lists them."
    target: str
    reason: str


class TargetOccupied(AlreadyExists, number=9003):
    """There is a table where a target is to be made."""

    fact = "there is a table at {place} that target {target} did not make"
    hint = "Name another place, or remove the table."
    target: str
    place: str


class TargetBranchesDropped(Invalid, number=8162):
    """A catalogue accepts branches of Iceberg tables, and keeps none: a target cannot commit to it."""

    fact = "the catalogue of {place} keeps no branches of Iceberg tables, by which target {target} commits"
    hint = """Nothing was written. Drop the target, and add it with another catalogue, or with a path; Nessie is one
        that keeps no branches (docs/how-to/register-in-a-catalogue.md)."""
    target: str
    place: str


class TargetTableUnknown(NotFound, number=9004):
    """A target has no table of an instance, or not yet."""

    fact = "target {target} has no table of {instance} at {lsn}"
    hint = "`rowtide cdc targets` shows its tables and their LSNs; `rowtide cdc apply {target} --once` applies changes."
    target: str
    instance: str
    lsn: str


class TargetPassed(DataLoss, number=9005):
    """Changes that a target has not applied are gone."""

    fact = "changes of {instance} that target {target} has not applied are gone: it has those up to {lsn}, {reason}"
    hint = "Run `rowtide cdc resnapshot {instance}`: the target then follows from the copy."
    instance: str
    target: str
    lsn: str
    reason: str


class TargetAhead(DataLoss, number=1173):
    """A target's table has changes that the lake does not know: the lake was restored to an earlier state."""

    fact = "the table of {instance} in target {target} has changes up to {lsn}, which the lake does not know"
    hint = """The lake was restored to an earlier state. Remove the table: `rowtide cdc apply {target} --once` makes it
        again from the lake. Nothing was written to it."""
    instance: str
    target: str
    lsn: str


class TargetNotFollowing(RowtideError, number=9006):
    """A change of the source's columns cannot be made in a target's table."""

    fact = "the table of {instance} in target {target} cannot follow: {reason}"
    hint = "Drop the target, remove the table, and add the target again, which loads it."
    target: str
    instance: str
    reason: str


class KeyUnfit(RowtideError, number=9007):
    """A key's value does not fit the type of its column, so that its row cannot be found."""

    fact = "the table of {instance} in target {target} cannot identify rows: a value of the key does not fit its type"
    hint = "Remove the rows with infinite times or NaN in their key, or give them another key."
    instance: str
    target: str


class TargetExpressionFailed(Invalid, number=9008):
    """An expression, a condition or the key of a target does not work on its rows."""

    fact = "the table of {instance} in target {target} cannot be computed: {reason}"
    hint = "Drop the target and add it with other expressions."
    target: str
    instance: str
    reason: Said


class TargetClassUnfit(Invalid, number=9009):
    """The class of a target of kind python cannot be used."""

    fact = "{name} cannot be a target: {reason}"
    hint = "Name an importable class as python:module.Class, with the methods of rowtide.targets.CustomTarget."
    name: str
    reason: str


class TargetInstanceEnded(NotFound, number=9010):
    """An instance of a target was disabled, or its name is another instance's."""

    fact = "instance {instance} of target {target} was disabled"
    hint = "Its table stays as it is. Drop the target, and add it with the table's present instance."
    target: str
    instance: str


class TargetFailed(RowtideError, number=9011):
    """The class of a target of kind python raised an exception."""

    fact = "target {target} failed: {reason}"
    hint = "Fix its class; the same window is applied again."
    target: str
    reason: Said


class TargetValueUnknown(DataLoss, number=22860):
    """The key of a row changed, and a value that stayed as it was is not in the lake, whose log lacks it."""

    fact = "rows of {instance} changed their keys, and values that they kept are not in the lake for target {target}"
    hint = """Run `rowtide cdc resnapshot {instance}`: the copy has them, and the target is made equal to it.
        `enable-table --before-images full` logs all values."""
    instance: str
    target: str


class TargetRowsChanged(DataLoss, number=9012):
    """Another client changed rows of a target's table, which cannot be made equal to its source by itself."""

    fact = "another client changed rows of the table of {instance} in target {target}: {operation}"
    hint = """Restore its version {version} (`restore table … to version as of {version}` of Delta): it resumes from
        there. Or run `rowtide cdc resnapshot {instance}`, which makes its present rows those of the source."""
    instance: str
    target: str
    operation: str
    version: str


class TargetNotMended(Invalid, number=8175):
    """A target's table has features with which only Spark can rewrite its files."""

    fact = "the table of {instance} in target {target} stays widened: it has {feature}, which only Spark writes"
    hint = "Let Spark do it: `alter table … drop feature typeWidening`, as Delta's documentation says."
    instance: str
    target: str
    feature: str


class NewColumnsNotFollowed(RowtideError, number=8169):
    """A target that follows columns cannot have those that its source's table has got, or under their new names."""

    fact = _NOT_FOLLOWED
    hint = "Enable an instance with the present columns, drop the target, and add it again with that instance."
    target: str
    table: str
    columns: str
    reason: str


class ColumnsLeftOut(NewColumnsNotFollowed, number=8166):
    """An instance was enabled with a choice of columns or without a copy: its users have to enable another one."""

    fact = _NOT_FOLLOWED
    hint = "`rowtide cdc enable-table {table} --capture-instance {new_name}`: the target goes over to its copy."
    new_name: str


class ColumnsGated(NewColumnsNotFollowed, number=8167):
    """An instance has a gating role, whose members would read the new columns."""

    fact = _NOT_FOLLOWED
    hint = """If they may: `rowtide cdc enable-table {table} --capture-instance {new_name} --role {role}`. The target
        goes over to its copy."""
    new_name: str
    role: str


class ColumnsNotCopied(NewColumnsNotFollowed, number=8168):
    """The instance that has new columns has no copy of the rows."""

    fact = _NOT_FOLLOWED
    hint = "`rowtide cdc resnapshot {instance}`: the target goes over to its copy."
    instance: str
