"""Triggers of programs that change the row they fire for; see `RewritingTrigger`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from rowtide.databases.sqlite.index_text import TOKEN
from rowtide.databases.sqlite.quoting import unquote
from rowtide.merge.articles import Article
from rowtide.merge.nodes.rewriting_triggers import RewritingTrigger
from rowtide.merge.nodes.sqlite.metadata.system_tables import AGENT
from rowtide.merge.nodes.sqlite.tables.triggers import all_trigger_names

_EXEMPTION = f'not exists (select 1 from "{AGENT}")'
_WRITING = frozenset(("insert", "update"))


def find_rewriting(session: sqlite3.Connection, article: Article) -> list[RewritingTrigger]:
    """Return the triggers of an article's table that write to it after an insert or update, whoever writes."""
    own = {name.lower() for name in all_trigger_names(article)}
    listed = "select name, sql from main.sqlite_master where type = 'trigger' and lower(tbl_name) = lower(?) order by 1"
    return [
        RewritingTrigger(name, article.name, _EXEMPTION)
        for name, sql in session.execute(listed, (article.file_table,))
        if name.lower() not in own and is_rewriting(sql, article.file_table)
    ]


def is_rewriting(sql: str, table: str) -> bool:
    """Whether a trigger for inserts or updates writes to its own table, and does not ask whether the agent writes."""
    words = [unquote(found.group()).lower() for found in TOKEN.finditer(sql) if found.lastgroup != "blank"]
    if AGENT.lower() in words or "begin" not in words:
        return False
    head, body = words[: words.index("begin")], words[words.index("begin") + 1 :]
    event = next((word for word in head[3:] if word in (*_WRITING, "delete")), None)
    return event in _WRITING and table.lower() in _written(body)


def _written(words: list[str]) -> Iterator[str]:
    """Yield the tables that statements insert into or update."""
    for place, word in enumerate(words):
        if word == "into" or (word == "update" and words[place - 1 : place] != ["do"]):
            following = words[place + 1 :]
            if following[:1] == ["or"]:
                following = following[2:]
            if following[1:2] == ["."]:
                following = following[2:]
            yield from following[:1]
