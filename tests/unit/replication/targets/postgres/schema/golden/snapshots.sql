-- table
create table "sales"."orders" (
    "id" integer not null,
    "customer" character varying(20),
    "note" text collate pg_catalog."C",
    "length" integer generated always as (length(note)) stored,
    primary key ("id")
)

-- table, composite key
create table "sales"."lines" (
    "line" integer not null,
    "it's 100%" numeric(10,2),
    "of_order" bigint not null,
    "with_order" bigint,
    primary key ("of_order", "line")
)

-- constraints
alter table "sales"."orders" add constraint "one_customer" UNIQUE (customer, id);
alter table "sales"."lines" add constraint "to_order" foreign key ("of_order") references "sales"."orders" ("id") deferrable initially deferred

-- truncate
truncate "sales"."orders", "sales"."lines"

-- drop
drop table "sales"."orders", "sales"."lines"

-- delete
delete from "sales"."orders"; delete from "sales"."lines"

-- lock
lock table only "sales"."orders" in access share mode

-- lock, partitioned
lock table "public"."parts" in access share mode

-- sample
select k0, k1 from (
    select case when "of_order" is distinct from null then pg_catalog.format('%s', "of_order") end as k0, case when "line" is distinct from null then pg_catalog.format('%s', "line") end as k1, row_number() over (order by "of_order", "line") as place, count(*) over () as total
    from only "sales"."lines" tablesample system (12.500000)
) as sampled
where place * 4 / total > (place - 1) * 4 / total and place < total
order by place

-- copy, all
copy (select "id", "customer", "note" from only "sales"."orders") to stdout

-- copy, chunk
copy (select "line", "it's 100%", "of_order", "with_order" from only "sales"."lines" where ("of_order", "line") > ('5'::bigint, e'it''s \\ 1'::integer) and ("of_order", "line") <= ('9'::bigint, '2'::integer)) to stdout

-- copy, but for rows
copy (select "line", "it's 100%", "of_order", "with_order" from only "sales"."lines" where ("of_order", "line") > ('5'::bigint, e'it''s \\ 1'::integer) and ("of_order", "line") <= ('9'::bigint, '2'::integer) and not ("of_order" = '6'::bigint and "line" = '1'::integer) and not ("of_order" = '6'::bigint and "line" = 'it''s'::integer)) to stdout with (format csv)

-- copy, one row
copy (select "line", null, "of_order", null from only "sales"."lines" where ("of_order" = '6'::bigint and "line" = 'it''s'::integer)) to stdout with (format csv)

-- copy, half
select total, k0, k1 from (
    select case when "of_order" is distinct from null then pg_catalog.format('%s', "of_order") end as k0, case when "line" is distinct from null then pg_catalog.format('%s', "line") end as k1, row_number() over (order by "of_order", "line") as place, count(*) over () as total
    from only "sales"."lines" where ("of_order", "line") > ('5'::bigint, e'it''s \\ 1'::integer) and ("of_order", "line") <= ('9'::bigint, '2'::integer)
) as ordered
where place = (total + 1) / 2

-- copy, filtered
copy (select "id", "kind" from only "public"."kinds" where ("id") <= ('7'::integer) and ("kind" <> 'x')) to stdout

-- locate
select below from (
    select place, count(*) filter (where place is null) over (
        order by k0, k1, place is null rows unbounded preceding) as below
    from (
        select "of_order" as k0, "line" as k1, null::bigint as place from only "sales"."lines" where false
        union all select k0::bigint, k1::integer, null from unnest($1::text[], $2::text[]) as bound (k0, k1)
        union all select k0::bigint, k1::integer, place from unnest($3::text[], $4::text[]) with ordinality as key (k0, k1, place)
    ) as ordered
) as counted where place is not null order by place
