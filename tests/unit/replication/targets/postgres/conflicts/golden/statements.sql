-- find, insert
select array[case when t."line" is distinct from null then pg_catalog.format('%s', t."line") end, case when t."quantity" is distinct from null then pg_catalog.format('%s', t."quantity") end, case when t."of_order" is distinct from null then pg_catalog.format('%s', t."of_order") end], t."of_order" operator(pg_catalog.=) ($1)[3]::bigint and t."line" operator(pg_catalog.=) ($1)[1]::integer, false, t.xmin operator(pg_catalog.=) pg_catalog.pg_current_xact_id()::pg_catalog.xid, null::pg_catalog.int8[] from "sales"."lines" t where (t."of_order" operator(pg_catalog.=) ($1)[3]::bigint and t."line" operator(pg_catalog.=) ($1)[1]::integer) or (t."quantity" operator(pg_catalog.=) ($1)[2]::numeric(10,2)) for update of t

-- find, update
select array[case when t."it's ""the"" $1" is distinct from null then pg_catalog.format('%s', t."it's ""the"" $1") end, case when t."100%" is distinct from null then pg_catalog.format('%s', t."100%") end], t."it's ""the"" $1" operator(pg_catalog.=) ($1)[1]::text, array[case when t."it's ""the"" $1" is distinct from null then pg_catalog.format('%s', t."it's ""the"" $1") end, case when t."100%" is distinct from null then pg_catalog.format('%s', t."100%") end] operator(pg_catalog.=) array[case when ($1)[1]::text is distinct from null then pg_catalog.format('%s', ($1)[1]::text) end, case when (select r.v from pg_catalog.jsonb_to_record(pg_catalog.jsonb_build_object('v', ($1)[2])) as r (v public."Größe")) is distinct from null then pg_catalog.format('%s', (select r.v from pg_catalog.jsonb_to_record(pg_catalog.jsonb_build_object('v', ($1)[2])) as r (v public."Größe"))) end], t.xmin operator(pg_catalog.=) pg_catalog.pg_current_xact_id()::pg_catalog.xid, (select array[(extract(epoch from o.timestamp) operator(pg_catalog.*) 1000000)::pg_catalog.int8, o.roident::pg_catalog.int8] from pg_catalog.pg_xact_commit_timestamp_origin(t.xmin) o) from "Sales:eu"."""O'Brien""" t where (t."it's ""the"" $1" operator(pg_catalog.=) ($1)[1]::text) or (t."it's ""the"" $1" operator(pg_catalog.=) ($1)[3]::text) or ((t."100%" = (select r.v from pg_catalog.jsonb_to_record(pg_catalog.jsonb_build_object('v', ($1)[4])) as r (v public."Größe")) or t."100%" is null and (select r.v from pg_catalog.jsonb_to_record(pg_catalog.jsonb_build_object('v', ($1)[4])) as r (v public."Größe")) is null)) for update of t

-- find, delete
select array[case when t."line" is distinct from null then pg_catalog.format('%s', t."line") end, case when t."quantity" is distinct from null then pg_catalog.format('%s', t."quantity") end, case when t."of_order" is distinct from null then pg_catalog.format('%s', t."of_order") end], t."of_order" operator(pg_catalog.=) ($1)[3]::bigint and t."line" operator(pg_catalog.=) ($1)[1]::integer, array[case when t."line" is distinct from null then pg_catalog.format('%s', t."line") end, case when t."quantity" is distinct from null then pg_catalog.format('%s', t."quantity") end, case when t."of_order" is distinct from null then pg_catalog.format('%s', t."of_order") end] operator(pg_catalog.=) array[case when ($1)[1]::integer is distinct from null then pg_catalog.format('%s', ($1)[1]::integer) end, case when ($1)[2]::numeric(10,2) is distinct from null then pg_catalog.format('%s', ($1)[2]::numeric(10,2)) end, case when ($1)[3]::bigint is distinct from null then pg_catalog.format('%s', ($1)[3]::bigint) end], t.xmin operator(pg_catalog.=) pg_catalog.pg_current_xact_id()::pg_catalog.xid, null::pg_catalog.int8[] from "sales"."lines" t where (t."of_order" operator(pg_catalog.=) ($1)[3]::bigint and t."line" operator(pg_catalog.=) ($1)[1]::integer) for update of t

-- find, by a partial index
select array[case when t."it's ""the"" $1" is distinct from null then pg_catalog.format('%s', t."it's ""the"" $1") end, case when t."100%" is distinct from null then pg_catalog.format('%s', t."100%") end], t."it's ""the"" $1" operator(pg_catalog.=) ($1)[1]::text, false, t.xmin operator(pg_catalog.=) pg_catalog.pg_current_xact_id()::pg_catalog.xid, null::pg_catalog.int8[] from "Sales:eu"."""O'Brien""" t where (t."it's ""the"" $1" operator(pg_catalog.=) ($1)[1]::text) or (lower("it's ""the"" $1") operator(pg_catalog.=) (select lower("it's ""the"" $1") from (select ($1)[1]::text collate pg_catalog."C" as "it's ""the"" $1", (select r.v from pg_catalog.jsonb_to_record(pg_catalog.jsonb_build_object('v', ($1)[2])) as r (v public."Größe")) as "100%") given) and t."100%" = (select r.v from pg_catalog.jsonb_to_record(pg_catalog.jsonb_build_object('v', ($1)[2])) as r (v public."Größe")) and ("100%" is not null) and (select "100%" is not null from (select ($1)[1]::text collate pg_catalog."C" as "it's ""the"" $1", (select r.v from pg_catalog.jsonb_to_record(pg_catalog.jsonb_build_object('v', ($1)[2])) as r (v public."Größe")) as "100%") given)) for update of t

-- insert
insert into "sales"."lines" ("line", "quantity", "of_order") overriding system value values (($1)[1]::integer, ($1)[2]::numeric(10,2), ($1)[3]::bigint)

-- update
update "Sales:eu"."""O'Brien""" t set "it's ""the"" $1" = ($1)[3]::text, "100%" = (select r.v from pg_catalog.jsonb_to_record(pg_catalog.jsonb_build_object('v', ($1)[4])) as r (v public."Größe")) where t."it's ""the"" $1" operator(pg_catalog.=) ($1)[1]::text

-- delete
delete from "sales"."lines" t where t."of_order" operator(pg_catalog.=) ($1)[3]::bigint and t."line" operator(pg_catalog.=) ($1)[1]::integer

-- overwrite
update "sales"."lines" t set "line" = ($1)[1]::integer, "quantity" = ($1)[2]::numeric(10,2), "of_order" = ($1)[3]::bigint where t."of_order" operator(pg_catalog.=) ($1)[3]::bigint and t."line" operator(pg_catalog.=) ($1)[1]::integer

-- delete another row
delete from "sales"."lines" t where t."of_order" operator(pg_catalog.=) ($1)[1]::bigint and t."line" operator(pg_catalog.=) ($1)[2]::integer

-- delete older rows
delete from "Sales:eu"."""O'Brien""" t where coalesce(((select array[(extract(epoch from o.timestamp) operator(pg_catalog.*) 1000000)::pg_catalog.int8, o.roident::pg_catalog.int8] from pg_catalog.pg_xact_commit_timestamp_origin(t.xmin) o))[1], 0) operator(pg_catalog.<=) ($1)[1]::pg_catalog.int8

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

-- find a deleted key
select (select array[(extract(epoch from o.timestamp) operator(pg_catalog.*) 1000000)::pg_catalog.int8, o.roident::pg_catalog.int8] from pg_catalog.pg_xact_commit_timestamp_origin(d.xmin) o), d.committed_us, d.originator from rowtide_subscriber."MSdeleted_keys" d where d.table_name = 'sales.lines' and d.key in (array[case when ($1::text[])[3]::bigint is distinct from null then pg_catalog.format('%s', ($1::text[])[3]::bigint) end, case when ($1::text[])[1]::integer is distinct from null then pg_catalog.format('%s', ($1::text[])[1]::integer) end], '{}')

-- record a deleted key
insert into rowtide_subscriber."MSdeleted_keys" (table_name, key) values ('Sales:eu."O''Brien"', array[case when ($1::text[])[1]::text is distinct from null then pg_catalog.format('%s', ($1::text[])[1]::text) end]) on conflict (table_name, key) do update set refreshed = "MSdeleted_keys".refreshed + 1, committed_us = null, originator = null

-- find when all was deleted
select (select array[(extract(epoch from o.timestamp) operator(pg_catalog.*) 1000000)::pg_catalog.int8, o.roident::pg_catalog.int8] from pg_catalog.pg_xact_commit_timestamp_origin(d.xmin) o), d.committed_us, d.originator from rowtide_subscriber."MSdeleted_keys" d where d.table_name = 'sales.lines' and d.key = '{}'

-- record that all was deleted
insert into rowtide_subscriber."MSdeleted_keys" (table_name, key) values ('sales.lines', '{}') on conflict (table_name, key) do update set refreshed = "MSdeleted_keys".refreshed + 1, committed_us = null, originator = null

-- triggers
create or replace function "rowtide_subscriber"."deleted_387350ecf615e74e"() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp set DateStyle = 'ISO, MDY' set IntervalStyle = 'iso_8601' set extra_float_digits = '3' set bytea_output = 'hex' set TimeZone = 'UTC' set lc_monetary = 'C' as '
declare
    gone text[] := ''{}'';
begin
    if current_setting(''rowtide.copying'', true) = ''on'' then
        return null;
    end if;
    if tg_op <> ''TRUNCATE'' then
        begin
            gone := array[case when old."of_order" is distinct from null then pg_catalog.format(''%s'', old."of_order") end, case when old."line" is distinct from null then pg_catalog.format(''%s'', old."line") end];
        exception when undefined_column then gone := null; end;
    end if;
    if gone is null then
        return null;
    end if;
    insert into rowtide_subscriber."MSdeleted_keys" (table_name, key) values (''sales.lines'', gone)
    on conflict (table_name, key) do update
    set refreshed = "MSdeleted_keys".refreshed + 1, committed_us = null, originator = null;
    return null;
end
';
do $body$begin if exists (select from pg_class where oid = to_regclass('"sales"."lines"') and relkind = 'p') then grant execute on function "rowtide_subscriber"."deleted_387350ecf615e74e"() to public; else revoke all on function "rowtide_subscriber"."deleted_387350ecf615e74e"() from public; end if; end$body$;
create or replace trigger rowtide_deleted after delete on "sales"."lines" for each row execute function "rowtide_subscriber"."deleted_387350ecf615e74e"();
create or replace trigger rowtide_moved after update of "of_order", "line" on "sales"."lines" for each row when (old."of_order" is distinct from new."of_order" or old."line" is distinct from new."line") execute function "rowtide_subscriber"."deleted_387350ecf615e74e"();
create or replace trigger rowtide_emptied after truncate on "sales"."lines" for each statement execute function "rowtide_subscriber"."deleted_387350ecf615e74e"();
alter table "sales"."lines" enable always trigger rowtide_deleted;
alter table "sales"."lines" enable always trigger rowtide_moved;
alter table "sales"."lines" enable always trigger rowtide_emptied

-- record a row that gave way
insert into rowtide_subscriber."MSdeleted_keys" (table_name, key, committed_us, originator) values ('Sales:eu."O''Brien"', array[case when ($1::text[])[1]::text is distinct from null then pg_catalog.format('%s', ($1::text[])[1]::text) end], ($1::text[])[3]::bigint, ($1::text[])[4]) on conflict (table_name, key) do update set refreshed = "MSdeleted_keys".refreshed + 1, committed_us = excluded.committed_us, originator = excluded.originator

-- find released values
select case when r.committed_us is null then (select array[(extract(epoch from o.timestamp) operator(pg_catalog.*) 1000000)::pg_catalog.int8, o.roident::pg_catalog.int8] from pg_catalog.pg_xact_commit_timestamp_origin(r.xmin) o) else array[r.committed_us, r.origin] end from rowtide_subscriber."MSreleased_values" r where r.table_name = 'sales.lines' and (r.columns = '"quantity"' and r.value = array[case when ($1::text[])[2]::numeric(10,2) is distinct from null then pg_catalog.format('%s', ($1::text[])[2]::numeric(10,2)) end])

-- find released values of a partial index
select case when r.committed_us is null then (select array[(extract(epoch from o.timestamp) operator(pg_catalog.*) 1000000)::pg_catalog.int8, o.roident::pg_catalog.int8] from pg_catalog.pg_xact_commit_timestamp_origin(r.xmin) o) else array[r.committed_us, r.origin] end from rowtide_subscriber."MSreleased_values" r where r.table_name = 'Sales:eu."O''Brien"' and (r.columns = 'lower("it''s ""the"" $1"), "100%" where "100%" is not null' and r.value = array[((select lower("it's ""the"" $1") from (select ($1::text[])[1]::text collate pg_catalog."C" as "it's ""the"" $1", (select r.v from pg_catalog.jsonb_to_record(pg_catalog.jsonb_build_object('v', ($1::text[])[2])) as r (v public."Größe")) as "100%") given))::text, ($1::text[])[2]] and (select "100%" is not null from (select ($1::text[])[1]::text collate pg_catalog."C" as "it's ""the"" $1", (select r.v from pg_catalog.jsonb_to_record(pg_catalog.jsonb_build_object('v', ($1::text[])[2])) as r (v public."Größe")) as "100%") given))

-- record a value of a hidden row
insert into rowtide_subscriber."MSreleased_values" as r (table_name, columns, value) select 'Sales:eu."O''Brien"', '"100%"', array[($1::text[])[2]] where true on conflict (table_name, columns, value) do update set refreshed = r.refreshed + 1, committed_us = null, origin = null where coalesce((case when r.committed_us is null then (select array[(extract(epoch from o.timestamp) operator(pg_catalog.*) 1000000)::pg_catalog.int8, o.roident::pg_catalog.int8] from pg_catalog.pg_xact_commit_timestamp_origin(r.xmin) o) else array[r.committed_us, r.origin] end)[1], 0) <= ($1::text[])[3]::bigint

-- body of the trigger on released values
declare
    had record;
    gone text[];
begin
    if current_setting('rowtide.copying', true) = 'on' then
        return null;
    end if;
    select (extract(epoch from o.timestamp) * 1000000)::bigint as committed_us, o.roident::bigint as origin
    into had from pg_xact_commit_timestamp_origin(old.xmin) o;
    
    gone := null;
    begin
        if num_nulls(old."quantity") = 0 and (tg_op = 'DELETE' or old."quantity" is distinct from new."quantity") then
            gone := array[case when old."quantity" is distinct from null then pg_catalog.format('%s', old."quantity") end];
        end if;
    exception when undefined_column then gone := null; end;
    if gone is not null then
        insert into rowtide_subscriber."MSreleased_values" as r (table_name, columns, value, committed_us, origin)
        values (
            'sales.lines', '"quantity"', gone, had.committed_us, had.origin)
        on conflict (table_name, columns, value) do update
        set refreshed = r.refreshed + 1, committed_us = excluded.committed_us, origin = excluded.origin
        where excluded.committed_us is null or (case when r.committed_us is null then (select array[(extract(epoch from o.timestamp) operator(pg_catalog.*) 1000000)::pg_catalog.int8, o.roident::pg_catalog.int8] from pg_catalog.pg_xact_commit_timestamp_origin(r.xmin) o) else array[r.committed_us, r.origin] end)[1] <= excluded.committed_us;
    end if;
    return null;
end

-- body of the trigger on odd values
declare
    had record;
    gone text[];
begin
    if current_setting('rowtide.copying', true) = 'on' then
        return null;
    end if;
    select (extract(epoch from o.timestamp) * 1000000)::bigint as committed_us, o.roident::bigint as origin
    into had from pg_xact_commit_timestamp_origin(old.xmin) o;
    
    gone := null;
    begin
        if true and (tg_op = 'DELETE' or row(old."100%")::record operator(pg_catalog.*<>) row(new."100%")::record) then
            gone := array[case when old."100%" is distinct from null then pg_catalog.format('%s', old."100%") end];
        end if;
    exception when undefined_column then gone := null; end;
    if gone is not null then
        insert into rowtide_subscriber."MSreleased_values" as r (table_name, columns, value, committed_us, origin)
        values (
            'Sales:eu."O''Brien"', '"100%"', gone, had.committed_us, had.origin)
        on conflict (table_name, columns, value) do update
        set refreshed = r.refreshed + 1, committed_us = excluded.committed_us, origin = excluded.origin
        where excluded.committed_us is null or (case when r.committed_us is null then (select array[(extract(epoch from o.timestamp) operator(pg_catalog.*) 1000000)::pg_catalog.int8, o.roident::pg_catalog.int8] from pg_catalog.pg_xact_commit_timestamp_origin(r.xmin) o) else array[r.committed_us, r.origin] end)[1] <= excluded.committed_us;
    end if;

    gone := null;
    begin
        if num_nulls((select lower("it's ""the"" $1") from (select (case when old."it's ""the"" $1" is distinct from null then pg_catalog.format('%s', old."it's ""the"" $1") end)::text collate pg_catalog."C" as "it's ""the"" $1", old."100%" as "100%") given), old."100%") = 0 and (select "100%" is not null from (select (case when old."it's ""the"" $1" is distinct from null then pg_catalog.format('%s', old."it's ""the"" $1") end)::text collate pg_catalog."C" as "it's ""the"" $1", old."100%" as "100%") given) and (tg_op = 'DELETE' or (select lower("it's ""the"" $1") from (select (case when old."it's ""the"" $1" is distinct from null then pg_catalog.format('%s', old."it's ""the"" $1") end)::text collate pg_catalog."C" as "it's ""the"" $1", old."100%" as "100%") given) is distinct from (select lower("it's ""the"" $1") from (select (case when new."it's ""the"" $1" is distinct from null then pg_catalog.format('%s', new."it's ""the"" $1") end)::text collate pg_catalog."C" as "it's ""the"" $1", new."100%" as "100%") given) or row(old."100%")::record operator(pg_catalog.*<>) row(new."100%")::record or (select "100%" is not null from (select (case when new."it's ""the"" $1" is distinct from null then pg_catalog.format('%s', new."it's ""the"" $1") end)::text collate pg_catalog."C" as "it's ""the"" $1", new."100%" as "100%") given) is not true) then
            gone := array[(select lower("it's ""the"" $1") from (select (case when old."it's ""the"" $1" is distinct from null then pg_catalog.format('%s', old."it's ""the"" $1") end)::text collate pg_catalog."C" as "it's ""the"" $1", old."100%" as "100%") given)::text, case when old."100%" is distinct from null then pg_catalog.format('%s', old."100%") end];
        end if;
    exception when undefined_column then gone := null; end;
    if gone is not null then
        insert into rowtide_subscriber."MSreleased_values" as r (table_name, columns, value, committed_us, origin)
        values (
            'Sales:eu."O''Brien"', 'lower("it''s ""the"" $1"), "100%" where "100%" is not null', gone, had.committed_us, had.origin)
        on conflict (table_name, columns, value) do update
        set refreshed = r.refreshed + 1, committed_us = excluded.committed_us, origin = excluded.origin
        where excluded.committed_us is null or (case when r.committed_us is null then (select array[(extract(epoch from o.timestamp) operator(pg_catalog.*) 1000000)::pg_catalog.int8, o.roident::pg_catalog.int8] from pg_catalog.pg_xact_commit_timestamp_origin(r.xmin) o) else array[r.committed_us, r.origin] end)[1] <= excluded.committed_us;
    end if;
    return null;
end

-- record a value of a partial index
insert into rowtide_subscriber."MSreleased_values" as r (table_name, columns, value) select 'Sales:eu."O''Brien"', 'lower("it''s ""the"" $1"), "100%" where "100%" is not null', array[((select lower("it's ""the"" $1") from (select ($1::text[])[1]::text collate pg_catalog."C" as "it's ""the"" $1", (select r.v from pg_catalog.jsonb_to_record(pg_catalog.jsonb_build_object('v', ($1::text[])[2])) as r (v public."Größe")) as "100%") given))::text, ($1::text[])[2]] where num_nulls(variadic array[((select lower("it's ""the"" $1") from (select ($1::text[])[1]::text collate pg_catalog."C" as "it's ""the"" $1", (select r.v from pg_catalog.jsonb_to_record(pg_catalog.jsonb_build_object('v', ($1::text[])[2])) as r (v public."Größe")) as "100%") given))::text, ($1::text[])[2]]) = 0 and (select "100%" is not null from (select ($1::text[])[1]::text collate pg_catalog."C" as "it's ""the"" $1", (select r.v from pg_catalog.jsonb_to_record(pg_catalog.jsonb_build_object('v', ($1::text[])[2])) as r (v public."Größe")) as "100%") given) on conflict (table_name, columns, value) do update set refreshed = r.refreshed + 1, committed_us = null, origin = null where coalesce((case when r.committed_us is null then (select array[(extract(epoch from o.timestamp) operator(pg_catalog.*) 1000000)::pg_catalog.int8, o.roident::pg_catalog.int8] from pg_catalog.pg_xact_commit_timestamp_origin(r.xmin) o) else array[r.committed_us, r.origin] end)[1], 0) <= ($1::text[])[3]::bigint
