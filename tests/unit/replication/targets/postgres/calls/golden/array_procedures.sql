-- insert
create or replace procedure "rowtide_subscriber"."sp_MSinsarray_salesorders"(c1 integer[], c2 timestamp(3) with time zone[], c3 text[], c4 text[]) language plpgsql set search_path from current set standard_conforming_strings = on as $body$
#variable_conflict use_variable
declare
    changed bigint;
begin
    insert into "sales"."orders" ("id", "at", "tags", "area") overriding system value select c1[g.i], c2[g.i], c3[g.i]::text[], c4[g.i]::box from pg_catalog.unnest(array(select pg_catalog.generate_series(1, pg_catalog.cardinality(c1)))) g (i);
    get diagnostics changed = row_count;
    if changed operator(pg_catalog.<>) pg_catalog.cardinality(c1) then
        perform rowtide_subscriber."sp_MSreplraiserror"('INSERT', 'sales.orders', pg_catalog.concat('id = ', null));
    end if;
end
$body$

-- insert, call
call "rowtide_subscriber"."sp_MSinsarray_salesorders"($1::integer[], $2::timestamp(3) with time zone[], $3::text[], $4::text[])

-- SCALL update
create or replace procedure "rowtide_subscriber"."sp_MSupdarray_salesorders"(c1 integer[], c2 timestamp(3) with time zone[], c3 text[], c4 text[], pkc1 integer[], bitmap bytea[]) language plpgsql set search_path from current set standard_conforming_strings = on as $body$
#variable_conflict use_variable
declare
    changed bigint;
begin
    update "sales"."orders" t set "at" = case when pg_catalog.get_bit(bitmap[g.i], 1) operator(pg_catalog.=) 1 then c2[g.i] else t."at" end, "tags" = case when pg_catalog.get_bit(bitmap[g.i], 2) operator(pg_catalog.=) 1 then c3[g.i]::text[] else t."tags" end, "area" = case when pg_catalog.get_bit(bitmap[g.i], 3) operator(pg_catalog.=) 1 then c4[g.i]::box else t."area" end from pg_catalog.unnest(array(select pg_catalog.generate_series(1, pg_catalog.cardinality(c1)))) g (i) where t."id" operator(pg_catalog.=) pkc1[g.i];
    get diagnostics changed = row_count;
    if changed operator(pg_catalog.<>) pg_catalog.cardinality(c1) then
        perform rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'sales.orders', pg_catalog.concat('id = ', null));
    end if;
end
$body$

-- delete, composite key
create or replace procedure "rowtide_subscriber"."sp_MSdelarray_publicpairs"(pkc1 integer[], pkc2 integer[]) language plpgsql set search_path from current set standard_conforming_strings = on as $body$
#variable_conflict use_variable
declare
    changed bigint;
begin
    delete from "public"."pairs" t using pg_catalog.unnest(array(select pg_catalog.generate_series(1, pg_catalog.cardinality(pkc1)))) g (i) where t."b" operator(pg_catalog.=) pkc1[g.i] and t."a" operator(pg_catalog.=) pkc2[g.i];
    get diagnostics changed = row_count;
    if changed operator(pg_catalog.<>) pg_catalog.cardinality(pkc1) then
        perform rowtide_subscriber."sp_MSreplraiserror"('DELETE', 'public.pairs', pg_catalog.concat('b = ', null, ', a = ', null));
    end if;
end
$body$
