"""What the hub does with uploaded changes: it writes what it decides, and settles what its database refuses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from rowtide.merge.articles import Article, PartitionOptions
from rowtide.merge.conflicts.record_contests import is_live
from rowtide.merge.conflicts.records import AS_WON, ConflictRecord, ConflictType, failure_type, record
from rowtide.merge.errors.rows import (
    CHILDREN_NOT_SEEN,
    FOREIGN_KEY_CODES,
    UNIQUE_CODES,
    ParentNotThere,
    PartitionMoved,
    RowNotHeld,
    WriteIgnored,
)
from rowtide.merge.nodes.rows import Holder, Refusal, read_all
from rowtide.merge.partitions.filters import RowFilter
from rowtide.merge.partitions.partition_membership import (
    FROM_THERE,
    add_members,
    end_memberships,
    find_moved,
    put_others_rows,
)
from rowtide.merge.session.accepted_versions import count_writes
from rowtide.merge.session.hub.cascading_deletes import Cascades, Judged, find_others, is_news
from rowtide.merge.session.hub.decisions import Decided, HubDecisions, instead
from rowtide.merge.session.hub.inherited_keys import defer_bequests
from rowtide.merge.session.hub.key_contests import KeyContest, KeyContests
from rowtide.merge.session.hub.lineage_checks import LineageChecks
from rowtide.merge.session.hub.parent_keys import (
    Families,
    KeyColumns,
    Keys,
    defer_orphans,
    find_absent,
    find_families,
    find_family,
    keys_to_read,
    layers_of,
    require_parents,
)
from rowtide.merge.session.messages import Counts
from rowtide.merge.session.node_receiver import parts_of, rowguids_of, split
from rowtide.merge.session.receiver import Attempt, Part, Received, Refused, by_article
from rowtide.merge.versions.changes import KnownVersion, Row, RowChange, Write

Staying = Set[tuple[int, str, str]]
"""Unique values of rows that the subscriber has deleted and the hub keeps: the nickname, the column and the value."""


@dataclass(slots=True)
class HubReceiver(HubDecisions):
    """The hub during an upload; see `Receiver`.

    `filters` are those of the subscriber's partition, by article; `articles` are the publication's, by nickname;
    `claims` judges the lineages that come, but in a rehearsal; `cascades` judges deletes; `bequests` are the refusals
    of deletes that would leave children to other rows.
    """

    filters: Mapping[int, RowFilter] = field(default_factory=dict)
    articles: Mapping[int, Article] = field(default_factory=dict)
    claims: LineageChecks | None = None
    cascades: Cascades | None = None
    bequests: Mapping[tuple[int, str], Refusal] = field(default_factory=dict)

    @property
    def holder(self) -> Holder | None:
        return Holder(self.source, self.filters) if self.filters else None

    @property
    def bounds(self) -> Mapping[int, RowFilter]:
        return {
            nickname: each
            for nickname, each in self.filters.items()
            if not each.article.partition_options.is_overlapping
        }

    def group(self, deletes: Iterable[Part]) -> Iterable[Sequence[Part]]:
        return ([part] for part in deletes) if self.cascades is None else self.cascades.group(deletes)

    def receive(self, parts: Sequence[Part], attempt: Attempt, late: Set[str] = frozenset()) -> list[Received]:
        self.read_versions.clear()
        self.bequests = defer_bequests(self.node, parts, self.articles)
        if attempt in (Attempt.FIRST, Attempt.ALONE, Attempt.TOGETHER):
            return self._receive(parts, attempt)
        changes = [(article, change) for article, several in parts for change in several]
        layers = layers_of(changes, self.articles)
        if len(layers) < 2:
            return self._receive(parts, attempt, late)
        found = {article.nickname: Received(Counts()) for article, _ in parts}
        if attempt is Attempt.LAST:
            early = by_article([each for each in changes if each[1].rowguid not in late])
            late = set(late)
            for (article, _), received in zip(early, self._receive(early, Attempt.FIRST), strict=True):
                found[article.nickname].counts.add(received.counts)
                late.update(each.change.rowguid for each in received.refused)
            changes = [each for each in changes if each[1].rowguid in late]
            layers = layers_of(changes, self.articles)
        for layer in layers:
            of_layer = by_article([changes[place] for place in layer])
            for (article, _), received in zip(of_layer, self._receive(of_layer, Attempt.RETRY), strict=True):
                found[article.nickname].counts.add(received.counts)
                found[article.nickname].refused.extend(received.refused)
        self._retry_over_layers(found)
        return [found[article.nickname] for article, _ in parts]

    def _find_deferred(self, part: Part) -> dict[str, Refusal]:
        """Return the refusals of a part's deletes that would leave children to other rows."""
        if not self.bequests:
            return {}
        places = ((change.rowguid, (part[0].nickname, change.rowguid)) for change in part[1])
        return {rowguid: self.bequests[place] for rowguid, place in places if place in self.bequests}

    def _retry_over_layers(self, found: Mapping[int, Received]) -> None:
        """Write together what was refused layer by layer: a row and its parent may have each other's unique values."""
        refused = [(each.article, each.change) for received in found.values() for each in received.refused]
        if len(layers_of(refused, self.articles)) < 2:
            return
        parts = by_article(refused)
        for (article, _), received in zip(parts, self._receive(parts, Attempt.RETRY), strict=True):
            found[article.nickname].counts.add(received.counts)
            found[article.nickname].refused[:] = received.refused

    def _receive(self, parts: Sequence[Part], attempt: Attempt, late: Set[str] = frozenset()) -> list[Received]:
        known, keys = self.read(parts)
        parts, refused_writes = self.refuse_others(parts, known)
        coming = {
            (article.nickname, change.rowguid)
            for article, changes in (parts if any(article.references for article, _ in parts) else ())
            for change in changes
            if change.row is not None
        }
        families = [find_families(part, self.articles, keys, coming) for part in parts]
        decided = [
            self.decide(part, found, families_of)
            for part, families_of, found in zip(parts, families, known, strict=True)
        ]
        judged = self._check_cascades(parts, decided, known)
        withheld = [
            self._find_withheld(part, each, said, judged)
            for part, each, said in zip(parts, families, decided, strict=True)
        ]
        if attempt is Attempt.TOGETHER and any(withheld):
            raise next(refusal.error for each in withheld for refusal in each.values())
        writes = [
            (part[0], [write for write in each.writes if write.rowguid not in without])
            for part, each, without in zip(parts, decided, withheld, strict=True)
        ]
        watched = self._watch(writes)
        commits = (
            attempt is Attempt.ALONE
            and not judged.lost
            and not watched
            and not self._may_follow(parts, decided, families)
        )
        refused_of: list[dict[str, Refusal]] = [
            {**without, **refusals}
            for without, refusals in zip(withheld, self.write(writes, attempt, late, commits=commits), strict=True)
        ]
        require_parents(families, writes, refused_of, self.articles)
        lost = self._keep_lost(judged, parts, refused_of)
        for (article, changes), each, refusals, found in zip(parts, decided, refused_of, known, strict=True):
            if article.nickname in watched:
                taken = [one for one in each.taken if one.rowguid not in refusals]
                ignored = self._keep_ignored(article, changes, taken, watched[article.nickname], found)
                lost[article.nickname] = lost.get(article.nickname, 0) + ignored
        received = []
        for part, each, refusals, others in zip(parts, decided, refused_of, refused_writes, strict=True):
            one = self._conclude_part(part, each, refusals)
            one.counts.conflicts += lost.get(part[0].nickname, 0)
            one.counts.add(others)
            received.append(one)
        return received

    def _watch(self, writes: Sequence[tuple[Article, Sequence[Write]]]) -> dict[int, Mapping[str, Row]]:
        """Return the rows as they are before they are written, of tables that may leave rows unwritten."""
        listed = [(article, several) for article, several in writes if several]
        watched = [each for each in listed if self.node.writer.find_ignoring(each[0])]
        return {
            article.nickname: self.node.rows.read(article, [one.rowguid for one in several])
            for article, several in watched
        }

    def _keep_ignored(
        self,
        article: Article,
        changes: Sequence[RowChange],
        taken: Sequence[Write],
        before: Mapping[str, Row],
        known: Mapping[str, KnownVersion],
    ) -> int:
        """Record the subscriber's changes that the table left unwritten, and return how many."""
        after = self.node.rows.read(article, [one.rowguid for one in taken])
        ignored = {
            one.rowguid
            for one in taken
            if after.get(one.rowguid) == before.get(one.rowguid) and one.row != before.get(one.rowguid)
        }
        error = WriteIgnored.by(article.name, self.node.writer.find_ignoring(article))
        for change in changes if ignored else ():
            if change.rowguid in ignored:
                here, present = known.get(change.rowguid), after.get(change.rowguid)
                kind = failure_type(change, is_upload=True, is_live=present is not None)
                self.keep(article, change, kind, error.code, error.reason, known=here, winning_row=present)
        return len(ignored)

    def _find_withheld(self, part: Part, families: Families, decided: Decided, judged: Judged) -> dict[str, Refusal]:
        """Return the refusals of what is not given to the database.

        If a row has two, the later one below counts. A row that lacks its parent and has moved: no parent that comes
        would let it move. A delete that reaches rows, and whose children another row would get: it is retried in either
        case, and decided again.
        """
        article = part[0]
        return {
            **defer_orphans(part, families, decided.writes, self.articles),
            **self._find_moved(article, decided.writes),
            **judged.of(article, decided.writes),
            **self._find_deferred(part),
        }

    def _conclude_part(self, part: Part, decided: Decided, refusals: Mapping[str, Refusal]) -> Received:
        """Store what follows from the part's written rows: conflicts, the partition's rows, and no more retries."""
        article = part[0]
        accepted, refused = split(part, refusals)
        for change in accepted:
            # What was read of the row is of its version before.
            self.read_versions.get(article.nickname, {}).pop(change.rowguid, None)
        self.record([conflict for conflict in decided.conflicts if conflict.rowguid not in refusals])
        if article.nickname in self.filters:
            self.keep_partition(article, accepted)
        self.forget_retries(article, accepted)
        counts = count_writes([write for write in decided.taken if write.rowguid not in refusals])
        counts.conflicts = decided.rejected + sum(one.rowguid not in refusals for one in decided.conflicts)
        return Received(counts, refused)

    def record(self, conflicts: Sequence[ConflictRecord]) -> None:
        """Store conflicts whose outcomes are written, with the hub's rows where they are not as they were."""
        asked = ((each.article, each.rowguid) for each in conflicts if each.settled_row != AS_WON)
        rows = read_all(self.node.rows, asked)
        for each in conflicts:
            is_read = each.settled_row != AS_WON
            settled = rows[each.article.nickname].get(each.rowguid) if is_read else AS_WON
            record(self.node.connection, replace(each, settled_row=settled))

    def _check_cascades(
        self, parts: Sequence[Part], decided: Sequence[Decided], known: Sequence[Mapping[str, KnownVersion]]
    ) -> Judged:
        """Return which deletes are refused, as they would reach rows that the subscriber had not seen."""
        if self.cascades is None:
            return Judged()
        for (article, changes), said, found in zip(parts, decided, known, strict=True):
            deleted = [change.rowguid for change in changes if change.row is None]
            gone = {one.rowguid for one in said.writes if one.row is None}
            stays = [each for each in deleted if each not in gone and is_live(found.get(each))]
            if stays and self.cascades.is_acting:
                self.cascades.staying.update((article.nickname, rowguid) for rowguid in stays)
        writes = [(article, each.writes) for (article, _), each in zip(parts, decided, strict=True)]
        return self.cascades.judge(writes, self.read_known)

    def _keep_lost(
        self, judged: Judged, parts: Sequence[Part], refused: Sequence[Mapping[str, Refusal]]
    ) -> dict[int, int]:
        """Record the rows that deletes reached; return how many, by the nickname of the deleted rows' article."""
        if self.cascades is None or not judged.lost:
            return {}
        without = {
            (article.nickname, rowguid) for (article, _), each in zip(parts, refused, strict=True) for rowguid in each
        }
        counts: dict[int, int] = {}
        for (nickname, _), rows in self.cascades.keep_lost(judged.lost, without).items():
            counts[nickname] = counts.get(nickname, 0) + rows
        return counts

    def refuse_others(
        self, parts: Sequence[Part], known: Sequence[Mapping[str, KnownVersion]]
    ) -> tuple[list[Part], list[Counts]]:
        """Refuse changes of rows that the subscriber does not have; return the others, and the counts of each part."""
        left: list[Part] = []
        counts: list[Counts] = []
        for (article, changes), found in zip(parts, known, strict=True):
            others = find_others(changes, found, self.source) if article.nickname in self.filters else []
            counts.append(Counts(conflicts=self._refuse_others(article, others, found) if others else 0))
            refused = {change.rowguid for change in others}
            left.append((article, [each for each in changes if each.rowguid not in refused] if refused else changes))
        return left, counts

    def _refuse_others(self, article: Article, changes: Sequence[RowChange], known: Mapping[str, KnownVersion]) -> int:
        """Record changes with news as conflicts, and return how many; the subscriber is sent the hub's versions.

        Nothing of the change becomes part of a version here: what its lineage says is not to be trusted.
        """
        error, rowguids = RowNotHeld.of(article.name), [change.rowguid for change in changes]
        news = [each for each in changes if is_news(each, known[each.rowguid])]
        rows = self.node.rows.read(article, [change.rowguid for change in news]) if news else {}
        for change in news:
            self.keep(
                article,
                change,
                ConflictType.UPLOAD_ROW_NOT_HELD,
                error.code,
                error.reason,
                known=known.get(change.rowguid),
                winning_row=rows.get(change.rowguid),
            )
        put_others_rows(self.node.connection, self.source, article, rowguids)
        self.forget_retries(article, changes)
        return len(news)

    def _may_follow(self, parts: Sequence[Part], decided: Sequence[Decided], families: Sequence[Families]) -> bool:
        """Whether more is written after the rows, which depends on those that the database refuses.

        If not, the rows and the commit can be one round trip.
        """
        nicknames = {article.nickname for article, _ in parts}
        return (
            any(each.conflicts for each in decided)
            or any(each.relying for each in families)
            or not nicknames.isdisjoint(self.filters)
            or not nicknames.isdisjoint(self.again)
        )

    def read(self, parts: Sequence[Part]) -> tuple[list[Mapping[str, KnownVersion]], Keys]:
        """Return what the hub knows of received rows, and the keys that their parents have here."""
        known, keys = self._read_with_keys(rowguids_of(parts), keys_to_read(parts, self.articles))
        self.check_lineages(parts, known)
        return known, keys

    def _read_with_keys(
        self, asked: Sequence[tuple[Article, Sequence[str]]], parents: Mapping[KeyColumns, Sequence[str]]
    ) -> tuple[list[Mapping[str, KnownVersion]], Keys]:
        """Return what the hub knows of rows, and the keys of parents that the subscriber has.

        Keys of rows outside the subscriber's partition are not read: a child that is sent back with such a key would
        disclose it.
        """
        rows = [(self.articles[nickname].only(columns), rowguids) for (nickname, columns), rowguids in parents.items()]
        bounded = [
            (self.articles[nickname], parents[nickname, of]) for nickname, of in parents if nickname in self.filters
        ]
        known, read = self.read_known_and_rows([*asked, *bounded], rows)
        hidden = {
            (article.nickname, rowguid)
            for (article, _), found in zip(bounded, known[len(asked) :], strict=True)
            for rowguid, here in found.items()
            if not here.is_held
        }
        keys = {
            columns: {rowguid: key for rowguid, key in found.items() if (columns[0], rowguid) not in hidden}
            for columns, found in zip(parents, read, strict=True)
        }
        return known[: len(asked)], keys

    def check_lineages(self, parts: Sequence[Part], known: Sequence[Mapping[str, KnownVersion]]) -> None:
        """Raise `GenerationRefused` if lineages include generations that the subscriber cannot know."""
        if self.claims is not None:
            self.claims.require(parts, known)

    def reject(self, refused: Sequence[Refused]) -> list[Counts]:
        settled: dict[int, Counts] = {}
        staying = self._read_staying(refused)
        for layer in layers_of([(each.article, each.change) for each in refused], self.articles):
            settled |= self._reject_refused({place: refused[place] for place in layer}, staying)
        return [settled[place] for place in range(len(refused))]

    def _read_staying(self, refused: Sequence[Refused]) -> Staying:
        """Return the unique values of rows that stay, though deleted by the subscriber, if others may have them."""
        found: set[tuple[int, str, str]] = set()
        if not any(each.change.row is not None and each.error.code in UNIQUE_CODES for each in refused):
            return found
        for article, changes in parts_of([each for each in refused if _is_undone(each)]):
            rows = self.node.rows.read(article, [change.rowguid for change in changes]).values()
            found.update(value for row in rows for value in _unique_values(article, row))
        return found

    def _reject_refused(self, refused: Mapping[int, Refused], staying: Staying) -> dict[int, Counts]:
        """Handle changes whose parents are handled already; return the result of each, by its place."""
        waiting, late, orphans = self._find_parents(refused)
        settled, left = self._try_again(waiting)
        known = self._read_known(list(late.values())) if late else {}
        present = self._read_present(list(late.values()), known)
        for place, each in late.items():
            nickname, rowguid = each.article.nickname, each.change.rowguid
            self.requeue(each, known[nickname].get(rowguid), present.get((nickname, rowguid)))
            settled[place] = Counts(refused=1)
        if orphans:
            self._compensate_each(list(orphans.values()))
            settled |= {place: Counts(conflicts=1) for place in orphans}
        return settled | self._settle_refused(left, staying)

    def _find_parents(
        self, refused: Mapping[int, Refused]
    ) -> tuple[dict[int, Refused], dict[int, Refused], dict[int, Refused]]:
        """Return refused changes whose parents are all here, or which have none; those whose parents are late; and
        those whose parents are gone.
        """
        keys = self._read_keys(list(refused.values()))
        here, late, gone = {}, {}, {}
        for place, each in refused.items():
            absent = find_absent(each.article, each.change, self.articles, keys)
            pending = [parent for parent in absent if parent in self.asking]
            if not absent:
                here[place] = each
            elif pending:
                is_locked = all(parent in self.locked for parent in pending)
                late[place] = replace(each, refusal=replace(each.refusal, is_locked=is_locked))
            else:
                gone[place] = each
        return here, late, gone

    def _read_keys(self, refused: Sequence[Refused]) -> Keys:
        """Return the keys that the parents of refused rows have here."""
        asked = keys_to_read(parts_of(refused), self.articles)
        return self._read_with_keys([], asked)[1] if asked else {}

    def _try_again(self, waiting: Mapping[int, Refused]) -> tuple[dict[int, Counts], dict[int, Refused]]:
        """Write what waited for parents that are here now; return the results, and what the hub still refuses."""
        held = {place: each for place, each in waiting.items() if isinstance(each.error, ParentNotThere)}
        left = {place: each for place, each in waiting.items() if place not in held}
        settled: dict[int, Counts] = {}
        parts = parts_of(list(held.values()))
        for (article, _), received in zip(parts, self._receive(parts, Attempt.RETRY) if parts else (), strict=True):
            places = {each.change.rowguid: place for place, each in held.items() if each.article == article}
            left |= {places.pop(each.change.rowguid): each for each in received.refused}
            # What was written is counted with the first of them.
            settled |= dict.fromkeys(places.values(), Counts())
            if places:
                settled[min(places.values())] = received.counts
        return settled, left

    def _settle_refused(self, refused: Mapping[int, Refused], staying: Staying) -> dict[int, Counts]:
        """Handle changes that the hub itself refuses.

        A row that has a unique value of one whose delete is refused is undone with it: neither could arrive otherwise.
        """
        known = self._read_known(list(refused.values()))
        settled: dict[int, Counts] = {}
        contests: dict[int, list[KeyContest]] = {}
        undone: dict[int, Refused] = {}
        present = self._read_present(list(refused.values()), known)
        self._note_members(list(refused.values()))
        for place, each in refused.items():
            article, change, holder = each.article, each.change, each.refusal.holder
            here = known[article.nickname]
            if (
                holder is not None
                and holder in here
                and not is_live(here.get(change.rowguid))
                and not each.refusal.is_locked
            ):
                assert change.row is not None
                contest = KeyContest(place, each, here.get(change.rowguid), holder, here[holder], change.row)
                contests.setdefault(article.nickname, []).append(contest)
            elif (
                _is_undone(each)
                or _has_value_of(each, staying)
                or (article.compensate_for_errors and not each.refusal.is_locked)
            ):
                undone[place] = each
            else:
                self.requeue(each, here.get(change.rowguid), present.get((article.nickname, change.rowguid)))
                settled[place] = Counts(refused=1)
        for several in contests.values():
            article = several[0].refused.article
            keys = self._read_keys([contest.refused for contest in several]) if article.references else {}
            placed = [
                replace(contest, row=find_family(article, contest.refused.change, self.articles, keys).row)
                for contest in several
            ]
            settled |= self._contests().settle(article, placed)
            self.ask_no_more([contest.refused for contest in several])
        # Contests may have changed rows.
        self._compensate_each(list(undone.values()), None if contests else present)
        return settled | {place: Counts(conflicts=1) for place in undone}

    def _note_members(self, refused: Sequence[Refused]) -> None:
        """Store that the subscriber has the refused rows, so that it is sent the outcome for them."""
        for article, changes in parts_of(refused):
            rows = [(change.rowguid, None) for change in changes if change.row is not None]
            if article.nickname in self.filters and rows:
                add_members(self.node.connection, self.source, article, rows, FROM_THERE)

    def _contests(self) -> KeyContests:
        return KeyContests(
            node=self.node,
            articles=self.articles,
            pubid=self.subscription.pubid,
            source=self.source,
            source_name=self.source_name,
            hub_name=self.hub_name,
            priority=self.priority,
            version_priority=self.priority or None,
            resolver=self._resolver,
            holder=self.holder,
            filters=self.filters,
        )

    def _read_known(self, refused: Sequence[Refused]) -> dict[int, Mapping[str, KnownVersion]]:
        """Return what the hub knows of refused rows, and of those that have their keys, by article."""
        asked: dict[int, tuple[Article, list[str]]] = {}
        for each in refused:
            listed = asked.setdefault(each.article.nickname, (each.article, []))[1]
            listed += [each.change.rowguid, *([each.refusal.holder] if each.refusal.holder is not None else [])]
        found = self.read_known(list(asked.values()))
        return dict(zip(asked, found, strict=True))

    def _read_present(
        self, refused: Sequence[Refused], known: Mapping[int, Mapping[str, KnownVersion]]
    ) -> dict[tuple[int, str], Row]:
        """Return the hub's rows that refused changes are of, by article and rowguid."""
        found: dict[tuple[int, str], Row] = {}
        for article, changes in parts_of([each for each in refused if not each.refusal.is_locked]):
            live = [one.rowguid for one in changes if is_live(known[article.nickname].get(one.rowguid))]
            rows = self.node.rows.read(article, live) if live else {}
            found.update(((article.nickname, rowguid), row) for rowguid, row in rows.items())
        return found

    def _find_moved(self, article: Article, writes: Sequence[Write]) -> dict[str, Refusal]:
        """Return the rows that the subscriber has moved, though it may not."""
        if article.partition_options is not PartitionOptions.UNMOVED or article.nickname not in self.filters:
            return {}
        updated = [write for write in writes if write.is_live and write.row is not None]
        present = self.node.rows.read(article, [write.rowguid for write in updated]) if updated else {}
        moved = find_moved(self.filters[article.nickname], updated, present)
        return {rowguid: Refusal(PartitionMoved(article.name, "RT-8040", reason), None) for rowguid, reason in moved}

    def keep_partition(self, article: Article, changes: Sequence[RowChange]) -> None:
        """Store which rows the subscriber has now."""
        live = [(change.rowguid, None) for change in changes if change.row is not None]
        add_members(self.node.connection, self.source, article, live, FROM_THERE)
        gone = [change.rowguid for change in changes if change.row is None]
        end_memberships(self.node.connection, self.subscription, article, gone)

    def _compensate_each(
        self, refused: Sequence[Refused], present: Mapping[tuple[int, str], Row] | None = None
    ) -> None:
        """Undo at the subscriber changes that the hub refuses, and stop requesting them.

        `present` are the hub's rows of them, if they have been read.
        """
        known = self._read_known(refused) if refused else {}
        by_nickname: dict[int, list[Refused]] = {}
        self._note_members(refused)
        for each in refused:
            by_nickname.setdefault(each.article.nickname, []).append(each)
        for nickname, several in by_nickname.items():
            article, rowguids = several[0].article, [each.change.rowguid for each in several]
            if present is None:
                rows = self.node.rows.read(article, rowguids)
            else:
                rows = {each: present[nickname, each] for each in rowguids if (nickname, each) in present}
            self._compensate(several, known[nickname], rows)
        self.ask_no_more(refused)

    def _compensate(
        self, refused: Sequence[Refused], known: Mapping[str, KnownVersion], rows: Mapping[str, Row]
    ) -> None:
        """Undo changes of an article at the subscriber (SQL Server: @compensate_for_errors)."""
        article = refused[0].article
        writes = []
        for each in refused:
            change, error, here = each.change, each.error, known.get(each.change.rowguid)
            row = rows.get(change.rowguid)
            conflict_type = failure_type(change, is_upload=True, is_live=is_live(here))
            self.keep(article, change, conflict_type, error.code, error.reason, known=here, winning_row=row)
            writes.append(instead(change, here, row))
        self.node.writer.write(article, writes)


def _unique_values(article: Article, row: Row) -> Iterator[tuple[int, str, str]]:
    """Yield a row's values in columns of unique keys, with the article's nickname and the column."""
    for column, value in zip(article.columns, row, strict=True):
        if value is not None and column.name in article.unique_columns:
            yield article.nickname, column.name, value


def _has_value_of(refused: Refused, staying: Staying) -> bool:
    """Whether a row was refused because a row that stays has one of its unique values."""
    row = refused.change.row
    if row is None or refused.error.code not in UNIQUE_CODES:
        return False
    return not staying.isdisjoint(_unique_values(refused.article, row))


def _is_undone(refused: Refused) -> bool:
    """Whether a change was refused because the hub has rows that reference the row, or one that was deleted with it.

    The row returns to the subscriber, which would otherwise lack the parent of rows that it receives.
    """
    code = refused.error.code
    return code == CHILDREN_NOT_SEEN or (refused.change.row is None and code in FOREIGN_KEY_CODES)
