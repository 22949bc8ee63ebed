"""Every hint of an error with a statement or a command is run by a test as it is printed, or it is said why not."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from builders.commands.command_tree import commands
from builders.commands.hints import find_runnable
from rowtide.core.errors import RowtideError

TESTS = Path(__file__).parents[2]
SOURCES = TESTS.parent / "src" / "rowtide"
RUNNERS = {"run_printed", "run_line", "run_statements", "run_mend"}
"""What runs a statement or a command as it is printed."""

_SERVER = "live/diagnosis/test_hints.py::test_an_error_is_gone_once_its_hint_is_done"
_REPLICATION, _MERGE = "live/replication/test", "conformance/merge/test"
_FILES = "integration/diagnosis/test_hints_of_files.py::test_an_error_of_files_is_gone_once_its_hint_is_done"
_RESTORES = "scenarios/log/test_restores.py::test_the_errors_of_other_histories_name_the_way"

RUN_BY = {
    "AcknowledgementRefused": _SERVER,
    "AddressTaken": _FILES,
    "AgentNotRunning": _SERVER,
    "CaptureReadsLog": _SERVER,
    "ChangeUnreadable": "live/log/test_unsendable_changes.py::test_without_a_tables_publication_the_log_reader_stops",
    "ChangesLost": _SERVER,
    "ChangesNotUploaded": _FILES,
    **dict.fromkeys(
        ("ColumnsGated", "ColumnsLeftOut", "ColumnsNotCopied"),
        "live/targets/test_following_columns.py::test_what_is_not_followed_is_said_with_the_command",
    ),
    "ConflictFound": f"{_REPLICATION}_conflicts.py::test_by_default_a_conflict_stops_and_is_kept_once",
    "ConflictUnknown": _FILES,
    "ConflictsUndecided": f"{_REPLICATION}_conflicts.py::test_by_default_a_conflict_stops_and_is_kept_once",
    "ConsumedInstanceEnded": "live/cdc/test_consuming.py::test_disabled_instance_ends_windows_until_consumer_changes",
    "ConsumerExists": _SERVER,
    "ConsumerOwned": _SERVER,
    "ConsumerPassed": "live/cdc/test_consuming.py::test_consumer_passed_by_cleanup_raises_and_can_resume",
    "ConsumerUnknown": _SERVER,
    "CustomScriptFailed": f"{_REPLICATION}_custom_scripting.py::test_a_failed_script_applies_nothing",
    "DatabaseCopied": "live/cdc/test_copied_databases.py::test_a_dump_of_a_copied_schema_alone_is_a_copy",
    "DatabaseNotEnabled": _SERVER,
    "DatabaseNotPublished": _SERVER,
    "DefinitionsDiffer": _FILES,
    "DefinitionsIncomplete": _SERVER,
    "DirectionsChanged": _FILES,
    "DistributionElsewhere": _SERVER,
    "FileHasReaders": f"{_MERGE}_obstacles.py::test_readers_of_a_file_without_wal_are_named",
    "FormatOutdated": "live/upgrading/test_upgrading.py::test_a_store_of_format_1_goes_on_in_a_build_of_format_2",
    "GenerationRefused": f"{_MERGE}_hostile_files.py::test_a_clock_that_went_back_is_refused",
    "IdentityLost": _SERVER,
    "IndexInvalid": _SERVER,
    "InstanceUnknown": _SERVER,
    "JobExists": _SERVER,
    "JobMissing": _SERVER,
    "LakeOfAnotherHistory": _RESTORES,
    "LakeUnknown": _SERVER,
    "LogStillRead": _SERVER,
    "LogStoreMoved": "live/cdc/test_adopting.py::test_a_database_restored_on_a_newer_server_goes_on",
    "LogicalRecordsTooLarge": "conformance/gateway/test_uploads.py::test_kept_parts_are_counted_as_they_are_unpacked",
    "LowWaterMarkUnknown": _SERVER,
    "LsnOutOfRange": _SERVER,
    "ManifestMissing": _SERVER,
    "MergeArticleUnknown": _FILES,
    "MergePublicationExists": _FILES,
    "MergePublicationUnknown": _FILES,
    "MergeSubscriptionExists": _FILES,
    "MergeSubscriptionUnknown": _FILES,
    "MergeValidationFailed": _FILES,
    "MergedTableAltered": _FILES,
    "NeverCopied": _SERVER,
    "NoReplicationRight": _SERVER,
    "NodeCopied": "live/merge/test_postgres_copies.py::test_a_copied_publisher_is_refused_before_the_original_meets",
    "NodeRestored": _FILES,
    "NotADistributor": _SERVER,
    "NotOfConsumer": _SERVER,
    "NotTracked": _FILES,
    "NothingReadsLog": _SERVER,
    "NotOwner": "live/rights/test_granting.py::test_a_role_without_grants_is_told_the_command",
    "NothingToResumeFrom": "live/cdc/test_adopting.py::test_a_log_store_that_is_not_there_is_named",
    "NothingToSubscribe": _SERVER,
    "NothingTracked": _SERVER,
    "OriginalAlive": "live/cdc/test_adopting.py::test_a_mere_copy_is_refused_while_the_original_is_there",
    "OutsideInterval": _SERVER,
    "OwnerNotHeld": _SERVER,
    "PartitionUnused": _FILES,
    "PublicationAltered": _SERVER,
    "PublicationSubscribed": _SERVER,
    "PublicationUnknown": _SERVER,
    "PublishedTableDropped": _SERVER,
    "ReadingDenied": _SERVER,
    "ReplicationRoleRefused": f"{_REPLICATION}_subscriber_constraints.py::test_a_role_that_may_not_disable_constraints",
    "RewrittenSinceSnapshot": _SERVER,
    "RoleNotCreated": _SERVER,
    "RowNotFound": _SERVER,
    "RoleUnknown": "live/rights/test_granting.py::test_a_role_that_does_not_exist_is_not_made",
    "RowsHidden": f"{_REPLICATION}_snapshots.py::test_rows_hidden_by_a_policy_are_not_left_out_but_refused",
    "SchemaAhead": f"{_MERGE}_schema_versions.py::test_a_subscriber_ahead_of_the_publisher_is_refused",
    "SchemaChangeUnknown": _FILES,
    "SlotAdvanced": _SERVER,
    "SlotMissing": _SERVER,
    "SnapshotDamaged": _FILES,
    "SnapshotNotOpen": _SERVER,
    "SnapshotOpen": _SERVER,
    "SnapshotUnfit": _FILES,
    "StoredFilterRefused": f"{_MERGE}_partitions.py::test_a_filter_of_an_earlier_build_is_named_with_a_way_out",
    "SubscriberAhead": f"{_REPLICATION}_subscribers.py::test_subscriber_ahead_of_its_publisher_is_reinitialized",
    "SubscriberBehind": f"{_REPLICATION}_subscribers.py::test_subscriber_that_needs_truncated_log_is_refused",
    "SubscriberNotCleared": _SERVER,
    "SubscriberOfAnotherHistory": _RESTORES,
    "SubscriberRowsDiffer": _SERVER,
    "SubscriberTableExists": _SERVER,
    "SubscriberUnknown": _SERVER,
    "SubscriptionDeactivated": f"{_REPLICATION}_retention.py::test_deactivated_subscription_can_only_be_reinitialized",
    "SubscriptionExpired": _FILES,
    "SubscriptionUnknown": _SERVER,
    "TableOwnerNotHeld": _SERVER,
    "TableRuleUnknown": _SERVER,
    "TargetExists": _SERVER,
    "TargetUnknown": _SERVER,
    "TrackedAlready": _FILES,
    "TrackedTableGone": _FILES,
    "TrackingLost": _SERVER,
    "TwoInstancesExist": _SERVER,
    "UploadNotComparable": f"{_MERGE}_lifecycle.py::test_expired_subscriber_blocks_no_purge_and_cannot_upload",
    "ValidationFailed": _SERVER,
    "ValuesDoNotFit": "live/cdc/test_schema_changes.py::test_type_that_captured_values_do_not_fit_waits_for_cleanup",
    "WrapperColumnUnknown": _SERVER,
    "WrapperFlagUnknown": _SERVER,
    "WritesRefused": _SERVER,
}
"""By the error, a test that runs what its hint has as it is printed."""

SAME_AS = {
    "AcknowledgementDenied": "ReadingDenied",
    "AnnouncementUnreadable": "ChangeUnreadable",
    "AppendNotFound": "ManifestMissing",
    "ArticleSuspended": "SubscriberBehind",
    "ChangeRefused": "IdentityLost",
    "ChangeTableLost": "TwoInstancesExist",
    "ChangesMissingSinceSnapshot": "RewrittenSinceSnapshot",
    "ChildrenNotSeen": "StoredFilterRefused",
    "ClockSkewed": "IdentityLost",
    "ConsumersBehind": "ConsumerPassed",
    "CopiedTableNotOwned": "TableOwnerNotHeld",
    "DifferenceImpossible": "ManifestMissing",
    "DistributionMissing": "DistributionElsewhere",
    "DistributorUnreachable": "DistributionElsewhere",
    "HistoryDiverged": "DatabaseCopied",
    "IdentityRangeMissing": "MergeSubscriptionUnknown",
    "IdentityUnfit": "IdentityLost",
    "JoiningRefused": "IdentityLost",
    "KeyLost": "TwoInstancesExist",
    "LakeBehindLog": "ManifestMissing",
    "MetadataMalformed": "GenerationRefused",
    "PublicationBeingDropped": "NotADistributor",
    "SchemaChanged": "SubscriberBehind",
    "ServerPromoted": "DatabaseCopied",
    "SlotInvalidated": "SlotMissing",
    "SnapshotCopyBroken": "RewrittenSinceSnapshot",
    "SnapshotOutdated": "SnapshotUnfit",
    "TableDeliveredInRing": "PublicationSubscribed",
    "TargetPassed": "RewrittenSinceSnapshot",
    "TargetRowsChanged": "RewrittenSinceSnapshot",
    "TargetValueUnknown": "RewrittenSinceSnapshot",
}
"""Errors whose hints have the command of another error's, which is run."""

NOT_RUN = {
    "it restarts a server": {
        "CommitTimesNotKept",
        "PreparedTransactionsLacking",
        "WalLevelNotLogical",
    },
    "it installs a program": {
        "EmbeddedServerMissing",
        "ExtraMissing",
        "JavaMissing",
    },
    "it ends somebody's session or transaction, which is chosen by a person": {
        "JobRunning",
        "LockNotObtained",
        "ScanRunning",
        "ServerSilent",
        "SlotInUse",
    },
    "it is for another program, with a file or a table that only its reader knows": {
        "CatalogueNamespaceUnknown",
        "FileFailed",
        "NotAPromotedCopy",
        "ProceduresMissing",
        "SubscriberLacks",
        "TableUnreadable",
        "TableUnwritable",
        "TargetAhead",
        "TargetNotMended",
    },
    "it is the beginning of a statement or command, of which only its reader knows the rest": {
        "ColumnNeeded",
        "KeyChanged",
        "LogStoreRelocated",
        "OwnersDiffer",
        "PartitionsOfOthers",
        "ProcedureOwnerNotTrusted",
        "SchemaChangeRefused",
        "SchemaOfOthers",
        "TableNotAltered",
    },
    "it trusts a role, or decides a conflict, instead of mending the cause": {
        "DeferredCodeOfOwner",
        "ParentNotThere",
        "PlannedCodeOfOwner",
        "RowNotHeld",
        "WriteIgnored",
    },
    "it prints a registration code, which a person carries to a device": {
        "CodeRefused",
        "DeviceExists",
        "DeviceFileDiffers",
        "DeviceNotRegistered",
        "DeviceRevoked",
        "TokenRefused",
    },
    "it only names the command that the error speaks of, or that tells more": {
        "ColumnGone",
        "AgentReplaced",
        "ArticleCopiedAgain",
        "BodyTooLarge",
        "ChangeRowsMiscounted",
        "DeclarationUnreadable",
        "DeviceUnknown",
        "IdentityRangeDoubtful",
        "InstanceNotReadable",
        "JobNotRunning",
        "LogNotRead",
        "LsnNotKept",
        "NodeOutdated",
        "NothingToCopy",
        "PasswordNotRead",
        "ProcessEnded",
        "ProcessSilent",
        "PartitionMoved",
        "RowOutsidePartition",
        "RowsRefused",
        "SchemaNotFollowed",
        "Stopped",
        "SubscriberIsHub",
        "SubscriptionsFailed",
        "TargetTableUnknown",
        "TerminalMissing",
        "TransactionReadable",
    },
}
"""Why others are not run."""


@cache
def find_errors() -> dict[str, type[RowtideError]]:
    """Return the error classes whose hints have a statement or a command, by their names."""
    for path in sorted(SOURCES.rglob("*.py")):
        if ", number=" in path.read_text(encoding="utf-8"):
            importlib.import_module(".".join(path.relative_to(SOURCES.parent).with_suffix("").parts))
    return {error.__name__: error for error in _below(RowtideError) if find_runnable(error.hint) or _is_filled(error)}


def _below(base: type[RowtideError]) -> Iterator[type[RowtideError]]:
    for error in base.__subclasses__():
        if "hint" in vars(error):
            yield error
        yield from _below(error)


def _is_filled(error: type[RowtideError]) -> bool:
    return re.search(r"\{(mend|way)\}", error.hint) is not None


def test_every_hint_is_run_by_a_test_or_has_a_reason() -> None:
    named = [*RUN_BY, *SAME_AS, *(name for names in NOT_RUN.values() for name in names)]
    assert len(named) == len(set(named))
    assert sorted(named) == sorted(find_errors())


@pytest.mark.parametrize("name", sorted(RUN_BY))
def test_the_test_runs_the_hint(name: str) -> None:
    path, _, function = RUN_BY[name].partition("::")
    (found,) = (node for node in _parse(path).body if isinstance(node, ast.FunctionDef) and node.name == function)
    calls = [node for node in ast.walk(found) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    called = {node.func.id for node in calls if isinstance(node.func, ast.Name)}
    if "require_help" in called:
        assert find_errors()[name].number in _tried(path)
        return
    assert called & RUNNERS, called
    assert name in {node.id for node in ast.walk(found) if isinstance(node, ast.Name)}


@pytest.mark.parametrize("name", sorted(SAME_AS))
def test_the_other_error_has_the_command(name: str) -> None:
    assert SAME_AS[name] in RUN_BY
    errors = find_errors()
    hints = errors[name].hint, errors[SAME_AS[name]].hint
    begun, run = ({tuple(found.split()[:3]) for found in [*find_runnable(hint), *_fills(hint)]} for hint in hints)
    assert {words[0] for words in begun if words[0] != "rowtide"} & {words[0] for words in run} or begun & run


def _fills(hint: str) -> list[str]:
    return re.findall(r"\{mend\}", hint)


@cache
def _parse(path: str) -> ast.Module:
    return ast.parse((TESTS / path).read_text(encoding="utf-8"))


def _tried(path: str) -> set[object]:
    """Return the numbers of the errors that a module's table has."""
    return {
        node.args[0].value
        for node in ast.walk(_parse(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Refused"
        if isinstance(node.args[0], ast.Constant)
    }


def test_every_command_in_a_hint_has_its_arguments() -> None:
    tree = {command.words: command for command in commands()}
    lacking: dict[str, str] = {}
    for name, error in find_errors().items():
        for printed in (one for one in find_runnable(error.hint) if one.startswith("rowtide ")):
            words = shlex.split(printed)[1:]
            (names,) = (names for names in tree if tuple(words[: len(names)]) == names)
            parameters = [one for one in tree[names].parameters if one.name != "db"]
            valued = {one.option for one in parameters if one.option and not one.is_flag}
            given, before = list[str](), ""
            for word in words[len(names) :]:
                given.append("" if before in valued or word.startswith("--") else word)
                before = word
            arguments = [one for one in parameters if one.is_required and not one.option]
            options = {one.option for one in parameters if one.is_required and one.option}
            if len(arguments) > len([word for word in given if word]) or options - set(words):
                lacking[name] = printed
    assert lacking == {}
