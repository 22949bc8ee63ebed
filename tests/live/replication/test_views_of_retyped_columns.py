"""Views of a subscriber's own that use a column whose type changes: they are made again as they were."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from builders.replication.replicated_databases import ReplicatedDatabase
from rowtide.replication.errors.delivery import CopyRefused

ITEMS = "create table items (id int primary key, qty int not null, note text)"
SEEN = """
select c.relname::text, c.relkind::text, pg_get_userbyid(c.relowner)::text, c.reloptions,
    regexp_replace(pg_get_viewdef(c.oid), '::(integer|bigint)', '', 'g'),
    (select array_agg(g::text order by g::text) from aclexplode(c.relacl) g),
    (select array_agg(a.attname || ' ' || g::text order by a.attname, g::text)
     from pg_attribute a, aclexplode(a.attacl) g where a.attrelid = c.oid),
    (select array_agg(objsubid || description order by objsubid) from pg_description where objoid = c.oid),
    (select array_agg(pg_get_triggerdef(oid) || coalesce(obj_description(oid, 'pg_trigger'), '') order by tgname)
     from pg_trigger where tgrelid = c.oid),
    (select array_agg(pg_get_ruledef(oid) order by rulename) from pg_rewrite
     where ev_class = c.oid and rulename <> '_RETURN'),
    (select array_agg(pg_get_indexdef(indexrelid) || indisclustered
        || coalesce(obj_description(indexrelid, 'pg_class'), '') order by indexrelid)
     from pg_index where indrelid = c.oid),
    (select array_agg(pg_get_expr(adbin, adrelid) order by adnum) from pg_attrdef where adrelid = c.oid),
    (select array_agg(pg_get_statisticsobjdef(oid)) from pg_statistic_ext where stxrelid = c.oid),
    c.relispopulated
from pg_class c where c.relkind in ('v', 'm') and c.relnamespace in ('public'::regnamespace, to_regnamespace('Own'))
order by 1
"""
TYPE = "select format_type(atttypid, null) from pg_attribute where attrelid = '{}'::regclass and attname = 'qty'"


def begin(replicated: ReplicatedDatabase) -> None:
    replicated.begin(ITEMS, items={})
    replicated.publisher.execute("insert into items select i, i * 10, 'note' from generate_series(1, 3) i")
    replicated.deliver()


def test_views_are_made_again_with_all_that_is_theirs(
    make_role: Callable[[str], str], replicated: ReplicatedDatabase
) -> None:
    owner, reader = f'"{make_role("")}"', f'"{make_role("")}"'
    begin(replicated)
    replicated.subscriber.execute(
        f"alter default privileges grant select on tables to {reader}",
        'create schema "Own"',
        f'grant create, usage on schema "Own" to {owner}',
        f"grant select on items to {owner}",
        "create view plain with (security_invoker, check_option = local) as select id, qty from items where qty > 0",
        f"revoke all on plain from {reader}",
        f"grant select (qty), update (id) on plain to {reader}",
        "comment on view plain is 'it''s plain'",
        "comment on column plain.qty is 'how many'",
        "alter view plain alter column id set default 7",
        f"grant select on plain to {owner} with grant option",
        'create view "Own"."Nested ""one""" as select p.qty * 2 as twice, i.note from plain p join items i using (id)',
        f'alter view "Own"."Nested ""one""" owner to {owner}',
        f'revoke insert, delete on "Own"."Nested ""one""" from {owner}',
        "create view unrelated as select id, note from items",
        "create function refuse() returns trigger language plpgsql as 'begin return null; end'",
        "create trigger refusing instead of insert on plain for each row execute function refuse()",
        "comment on trigger refusing on plain is 'it refuses'",
        "create rule nothing as on delete to plain do instead nothing",
        'create materialized view sums as select twice, count(*) as n from "Own"."Nested ""one""" group by 1',
        "create unique index sums_twice on sums (twice)",
        "comment on index sums_twice is 'unique'",
        "alter materialized view sums cluster on sums_twice",
        "create statistics sums_both on twice, n from sums",
        "create materialized view empty as select * from sums with no data",
    )
    before, (unrelated,) = (
        replicated.subscriber.execute(SEEN),
        replicated.subscriber.execute("select 'unrelated'::regclass::oid::int"),
    )
    replicated.publisher.execute(
        "alter table items alter qty type bigint", "update items set qty = 5000000000 where id = 3"
    )
    replicated.deliver()

    assert replicated.subscriber.execute(SEEN) == before
    assert replicated.subscriber.execute("select 'unrelated'::regclass::oid::int") == [unrelated], "not touched"
    assert replicated.subscriber.execute(TYPE.format("plain")) == [("bigint",)]
    assert replicated.subscriber.execute("select max(qty) from plain") == [(5_000_000_000,)]
    assert replicated.subscriber.execute("select twice from sums order by 1") == [(20,), (40,), (60,)]
    replicated.require_equal("items")


@pytest.mark.exhaustive
def test_a_view_that_something_else_needs_stops_its_table(replicated: ReplicatedDatabase) -> None:
    begin(replicated)
    replicated.subscriber.execute(
        "create view plain as select id, qty from items",
        "create function total() returns bigint begin atomic select sum(qty) from plain; end",
    )
    replicated.publisher.execute("alter table items alter qty type bigint")
    with pytest.raises(CopyRefused) as refused:
        replicated.replication.run(once=True)

    assert "view public.plain uses the column, and it cannot be dropped: cannot drop view public.plain" in str(
        refused.value
    )
    assert "drop it, and create it again after `rowtide replication resume`" in str(refused.value)
    replicated.subscriber.execute("drop view plain cascade")
    replicated.replication.resume("shop", replicated.subscriber.url)
    replicated.replication.run(once=True)
    replicated.require_equal("items")


@pytest.mark.exhaustive
def test_views_of_a_table_that_is_copied_again_stay(replicated: ReplicatedDatabase) -> None:
    begin(replicated)
    replicated.subscriber.execute("create view plain as select id, qty from items")
    replicated.publisher.execute("alter table items alter qty type text using 'q' || qty")
    replicated.deliver()

    assert replicated.subscriber.execute("select qty from plain order by 1") == [("q10",), ("q20",), ("q30",)]
