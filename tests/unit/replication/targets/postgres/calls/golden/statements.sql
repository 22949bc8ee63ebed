-- insert, orders
insert into "sales"."orders" ("id", "quantity", "note") overriding system value values (($1)[1]::integer, ($1)[2]::integer, ($1)[3]::character varying(20))

-- update, orders
update "sales"."orders" t set "id" = ($1)[1]::integer, "quantity" = ($1)[2]::integer, "note" = ($1)[3]::character varying(20) where t."id" operator(pg_catalog.=) ($1)[4]::integer

-- delete, orders
delete from "sales"."orders" t where t."id" operator(pg_catalog.=) ($1)[1]::integer

-- insert, composite key
insert into "sales"."lines" ("line", "quantity", "of_order") overriding system value values (($1)[1]::integer, ($1)[2]::numeric(10,2), ($1)[3]::bigint)

-- update, composite key
update "sales"."lines" t set "line" = ($1)[1]::integer, "quantity" = ($1)[2]::numeric(10,2), "of_order" = ($1)[3]::bigint where t."of_order" operator(pg_catalog.=) ($1)[4]::bigint and t."line" operator(pg_catalog.=) ($1)[5]::integer

-- delete, composite key
delete from "sales"."lines" t where t."of_order" operator(pg_catalog.=) ($1)[1]::bigint and t."line" operator(pg_catalog.=) ($1)[2]::integer

-- insert, odd names
insert into "Sales:eu"."""O'Brien""" ("it's ""the"" $1", "100%") overriding system value values (($1)[1]::text, (select r.v from pg_catalog.jsonb_to_record(pg_catalog.jsonb_build_object('v', ($1)[2])) as r (v public."Größe")))

-- update, odd names
update "Sales:eu"."""O'Brien""" t set "it's ""the"" $1" = ($1)[1]::text, "100%" = (select r.v from pg_catalog.jsonb_to_record(pg_catalog.jsonb_build_object('v', ($1)[2])) as r (v public."Größe")) where t."it's ""the"" $1" operator(pg_catalog.=) ($1)[3]::text

-- delete, odd names
delete from "Sales:eu"."""O'Brien""" t where t."it's ""the"" $1" operator(pg_catalog.=) ($1)[1]::text

-- insert, no key
insert into "public"."events" ("at", "what") overriding system value values (($1)[1]::timestamp with time zone, ($1)[2]::jsonb)

-- update, chosen columns
update "sales"."orders" t set "id" = ($1)[1]::integer, "note" = ($1)[2]::character varying(20) where t."id" operator(public.=) ($1)[3]::integer

-- truncate
do $body$
declare
    truncated pg_catalog.oid := '"Sales:eu"."""O''Brien"""'::pg_catalog.regclass::pg_catalog.oid;
begin
    if exists (select from pg_catalog.pg_constraint c
               where c.confrelid operator(pg_catalog.=) truncated and c.conrelid operator(pg_catalog.<>) truncated
                   and c.contype operator(pg_catalog.=) 'f'::pg_catalog."char") then
        delete from "Sales:eu"."""O'Brien""";
    else
        begin
            truncate "Sales:eu"."""O'Brien""";
        exception when object_in_use then
            delete from "Sales:eu"."""O'Brien""";
        end;
    end if;
end$body$

-- update by bitmap
update "sales"."orders" t set "quantity" = case when pg_catalog.get_bit(($1)[5]::bytea, 1) operator(pg_catalog.=) 1 then ($1)[2]::integer else t."quantity" end, "note" = case when pg_catalog.get_bit(($1)[5]::bytea, 2) operator(pg_catalog.=) 1 then ($1)[3]::character varying(20) else t."note" end where t."id" operator(public.=) ($1)[4]::integer

-- update by bitmap, with key
update "sales"."orders" t set "id" = case when pg_catalog.get_bit(($1)[5]::bytea, 0) operator(pg_catalog.=) 1 then ($1)[1]::integer else t."id" end, "quantity" = case when pg_catalog.get_bit(($1)[5]::bytea, 1) operator(pg_catalog.=) 1 then ($1)[2]::integer else t."quantity" end, "note" = case when pg_catalog.get_bit(($1)[5]::bytea, 2) operator(pg_catalog.=) 1 then ($1)[3]::character varying(20) else t."note" end where t."id" operator(public.=) ($1)[4]::integer

-- custom procedure
call my_delete(($1)[1]::integer, ($1)[2]::integer, ($1)[3]::character varying(20))

-- many inserts
insert into "sales"."orders" ("id", "quantity", "note") overriding system value select g.c1::integer, g.c2::integer, g.c3::character varying(20) from rows from (pg_catalog.unnest(($1)[1]::pg_catalog.text[]), pg_catalog.unnest(($1)[2]::pg_catalog.text[]), pg_catalog.unnest(($1)[3]::pg_catalog.text[])) g (c1, c2, c3)

-- many updates
update "sales"."orders" t set "quantity" = case when pg_catalog.get_bit(g.bitmap::bytea, 1) operator(pg_catalog.=) 1 then g.c2::integer else t."quantity" end, "note" = case when pg_catalog.get_bit(g.bitmap::bytea, 2) operator(pg_catalog.=) 1 then g.c3::character varying(20) else t."note" end from rows from (pg_catalog.unnest(($1)[1]::pg_catalog.text[]), pg_catalog.unnest(($1)[2]::pg_catalog.text[]), pg_catalog.unnest(($1)[3]::pg_catalog.text[]), pg_catalog.unnest(($1)[4]::pg_catalog.text[]), pg_catalog.unnest(($1)[5]::pg_catalog.text[])) g (c1, c2, c3, pkc1, bitmap) where t."id" operator(public.=) g.pkc1::integer

-- many deletes
delete from "sales"."lines" t using rows from (pg_catalog.unnest(($1)[1]::pg_catalog.text[]), pg_catalog.unnest(($1)[2]::pg_catalog.text[])) g (pkc1, pkc2) where t."of_order" operator(pg_catalog.=) g.pkc1::bigint and t."line" operator(pg_catalog.=) g.pkc2::integer

-- copied rows
insert into "Sales:eu"."""O'Brien""" ("it's ""the"" $1", "100%") overriding system value select g.c1::text, (select r.v from pg_catalog.jsonb_to_record(pg_catalog.jsonb_build_object('v', g.c2)) as r (v public."Größe")) from rows from (pg_catalog.unnest(($1)[1]::pg_catalog.text[]), pg_catalog.unnest(($1)[2]::pg_catalog.text[])) g (c1, c2)
(select array[array_agg(c1)::text, array_agg(c2)::text] from pg_temp.rows)
