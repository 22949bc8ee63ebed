-- insert
create or replace procedure "rowtide_subscriber"."sp_MSinsarray_salesorders"(c1 integer[], c2 timestamp(3) with time zone[], c3 text[], c4 text[]) language plpgsql as $body$
#variable_conflict use_variable
declare
    changed bigint;
begin
    insert into "sales"."orders" ("id", "at", "tags", "area") overriding system value select c1[g.i], c2[g.i], c3[g.i]::text[], c4[g.i]::box from unnest(array(select generate_series(1, cardinality(c1)))) g (i);
    get diagnostics changed = row_count;
    if changed <> cardinality(c1) then
        perform rowtide_subscriber."sp_MSreplraiserror"('INSERT', 'sales.orders', concat('id = ', null));
    end if;
end
$body$

-- insert, call
call "rowtide_subscriber"."sp_MSinsarray_salesorders"($1::integer[], $2::timestamp(3) with time zone[], $3::text[], $4::text[])

-- SCALL update
create or replace procedure "rowtide_subscriber"."sp_MSupdarray_salesorders"(c1 integer[], c2 timestamp(3) with time zone[], c3 text[], c4 text[], pkc1 integer[], bitmap bytea[]) language plpgsql as $body$
#variable_conflict use_variable
declare
    changed bigint;
begin
    update "sales"."orders" t set "at" = case when get_bit(bitmap[g.i], 1) = 1 then c2[g.i] else t."at" end, "tags" = case when get_bit(bitmap[g.i], 2) = 1 then c3[g.i]::text[] else t."tags" end, "area" = case when get_bit(bitmap[g.i], 3) = 1 then c4[g.i]::box else t."area" end from unnest(array(select generate_series(1, cardinality(c1)))) g (i) where t."id" = pkc1[g.i];
    get diagnostics changed = row_count;
    if changed <> cardinality(c1) then
        perform rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'sales.orders', concat('id = ', null));
    end if;
end
$body$

-- delete, composite key
create or replace procedure "rowtide_subscriber"."sp_MSdelarray_publicpairs"(pkc1 integer[], pkc2 integer[]) language plpgsql as $body$
#variable_conflict use_variable
declare
    changed bigint;
begin
    delete from "public"."pairs" t using unnest(array(select generate_series(1, cardinality(pkc1)))) g (i) where t."b" = pkc1[g.i] and t."a" = pkc2[g.i];
    get diagnostics changed = row_count;
    if changed <> cardinality(pkc1) then
        perform rowtide_subscriber."sp_MSreplraiserror"('DELETE', 'public.pairs', concat('b = ', null, ', a = ', null));
    end if;
end
$body$
