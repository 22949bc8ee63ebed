"""Triggers of programs that change the row they fire for; see `RewritingTrigger`."""

from __future__ import annotations

from rowtide.databases.postgres.batching import BatchingConnection
from rowtide.merge.articles import Article
from rowtide.merge.nodes.postgres.metadata.row_metadata import table_of
from rowtide.merge.nodes.rewriting_triggers import RewritingTrigger

_EXEMPTION = "current_setting('rowtide.merge_agent', true) is distinct from 'on'"
_ROW, _BEFORE, _INSERT_OR_UPDATE = 1, 2, 4 | 16
"""Bits of `pg_trigger.tgtype`."""
_SETS_NEW = r'(^|;|\mbegin|\mthen|\melse|\mloop|\minto|\minto\s+strict)\s*new\s*\.\s*"?\w+"?\s*(:?=|\mfrom\M|;|,)'
_WRITES = r'\m(update|insert\s+into)\s+(only\s+)?("?\w+"?\s*\.\s*)?"?'

# A trigger's function in another language says nothing that could be read, but for the extension that is made for this.
_REQUEST = rf"""
select t.tgname::text from pg_trigger t join pg_proc p on p.oid = t.tgfoid join pg_class c on c.oid = t.tgrelid
cross join regexp_replace(regexp_replace(p.prosrc, '--[^\n]*', ' ', 'g'), '/[*].*?[*]/', ' ', 'g') body
where t.tgrelid = %s::regclass and not t.tgisinternal and t.tgenabled in ('O', 'A')
  and left(t.tgname, 8) <> 'MSmerge_' and t.tgtype & {_ROW} <> 0 and t.tgtype & {_INSERT_OR_UPDATE} <> 0
  and position('rowtide.merge_agent' in pg_get_triggerdef(t.oid)) = 0
  and position('rowtide.merge_agent' in p.prosrc) = 0
  and case when t.tgtype & {_BEFORE} <> 0
      then p.prosrc = 'moddatetime' or body ~* '{_SETS_NEW}'
      else body ~* concat('{_WRITES}', regexp_replace(c.relname, '\W', '\\\&', 'g'), '"?\M') end
order by 1"""


def find_rewriting(session: BatchingConnection, article: Article) -> list[RewritingTrigger]:
    """Return the triggers of an article's table that change rows which are inserted or updated, whoever writes."""
    (rows,) = session.read((_REQUEST, [table_of(article)]), texts=True)
    return [RewritingTrigger(name, article.name, _EXEMPTION) for (name,) in rows]
