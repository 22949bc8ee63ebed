from __future__ import annotations

from builders.capture.capture_instances import source_table
from builders.log.log_stores import open_state, range_to
from builders.replication.articles import ANOTHER_ID, article
from rowtide.core.lsn import CommitLsn, Position
from rowtide.log.membership import Disabled
from rowtide.log.store.replay import apply
from rowtide.replication.distribution.log_events import find_dropped

ARTICLE = article(source_table([("id", "integer")]))


def test_an_articles_end_in_the_range_is_its_tables() -> None:
    ends = (Disabled(CommitLsn(200), ARTICLE.article_id), Disabled(CommitLsn(300), ANOTHER_ID))
    state = open_state()
    state = apply(state, state.version + 1, range_to(state, 1000, events=ends))

    (found,) = find_dropped(state, [ARTICLE], Position(100), Position(1000))
    assert found.table == f"{ARTICLE.schema}.{ARTICLE.table}"
    assert not list(find_dropped(state, [ARTICLE], Position(201), Position(1000)))
