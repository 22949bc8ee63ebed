--
-- PostgreSQL database dump
--


-- Dumped from database version 16.14
-- Dumped by pg_dump version 16.14

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: distribution; Type: SCHEMA; Schema: -; Owner: postgres
--

CREATE SCHEMA distribution;


ALTER SCHEMA distribution OWNER TO postgres;

--
-- Name: rowtide; Type: SCHEMA; Schema: -; Owner: postgres
--

CREATE SCHEMA rowtide;


ALTER SCHEMA rowtide OWNER TO postgres;

--
-- Name: rowtide_announce_ddl(); Type: FUNCTION; Schema: rowtide; Owner: postgres
--

CREATE FUNCTION rowtide.rowtide_announce_ddl() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "DateStyle" TO 'ISO, MDY'
    SET "IntervalStyle" TO 'iso_8601'
    SET extra_float_digits TO '3'
    SET bytea_output TO 'hex'
    SET "TimeZone" TO 'UTC'
    SET lc_monetary TO 'C'
    SET xmlbinary TO 'base64'
    SET quote_all_identifiers TO 'off'
    AS $_$
-- set DateStyle = 'ISO, MDY' set IntervalStyle = 'iso_8601' set extra_float_digits = '3' set bytea_output = 'hex' set TimeZone = 'UTC' set lc_monetary = 'C' set xmlbinary = 'base64' set quote_all_identifiers = 'off'
declare
    altered record;
    brings_rows boolean;
    takes_rows boolean;
    unloggable record;
    rewritten text[] := string_to_array(current_setting('rowtide.rewritten', true), ' ');
begin
    for altered in
        with recursive named as (
            select c.oid, d.classid from pg_event_trigger_ddl_commands() d
            join pg_class c on d.classid = 'pg_class'::regclass and c.oid = d.objid
                            or d.classid = 'pg_namespace'::regclass and c.relnamespace = d.objid
        ), passed_on as (
            select t.oid from named a join pg_class c on c.oid = a.oid and a.classid = 'pg_class'::regclass
            join pg_class t on t.reloftype = c.reltype and c.reltype <> 0
            union
            select i.inhrelid from named a join pg_inherits i on i.inhparent = a.oid
            where a.classid = 'pg_class'::regclass
            union
            select i.inhrelid from passed_on a join pg_inherits i on i.inhparent = a.oid
        ), above as (
            select ancestor.relid as oid from named a join pg_class c on c.oid = a.oid and c.relkind = 'p',
                pg_partition_ancestors(a.oid) ancestor
        )
        select c.oid, n.nspname, c.relname, c.relkind, c.oid not in (select oid from named) as is_inherited,
            c.oid not in (select oid from named union select oid from passed_on) as is_above
        from (select oid from named union select oid from passed_on union select oid from above) found
        join pg_class c on c.oid = found.oid
        join pg_namespace n on n.oid = c.relnamespace
        join pg_publication_rel r on r.prrelid = c.oid
        join pg_publication p on p.oid = r.prpubid
        join pg_database here on here.datname = current_database()
        where p.pubname = 'rowtide_' || here.oid
        order by c.oid
    loop
        brings_rows := altered.relkind = 'p' and tg_tag = 'ALTER TABLE' and exists (
            select from pg_partition_tree(altered.oid) above join pg_inherits i on i.inhparent = above.relid
            where i.xmin::text::bigint > 2
                and (i.xmin::text::bigint - pg_current_xact_id()::text::bigint & 4294967295) < 1073741824
                and pg_xact_status((pg_current_xact_id()::text::bigint
                    + (i.xmin::text::bigint - pg_current_xact_id()::text::bigint & 4294967295))::text::xid8)
                    = 'in progress' and exists (
                    select from pg_partition_tree(i.inhrelid) part where part.isleaf and pg_relation_size(part.relid) > 0
                    union all select where pg_relation_size(i.inhrelid) > 0));
        takes_rows := altered.relkind = 'p' and tg_tag = 'ALTER TABLE' and exists (
            select from pg_trigger known
            join pg_class c on c.oid = coalesce(pg_partition_root(known.tgrelid), known.tgrelid)
            where known.tgfoid = to_regprocedure('rowtide.refuse_partition_truncate()')
                and not exists (select from pg_partition_ancestors(known.tgrelid) above
                                where above.relid = ((regexp_match(encode(known.tgargs, 'escape'), '^(.*?)(?:\\000(\d+))?\\000$'))[2])::oid)
                and ((regexp_match(encode(known.tgargs, 'escape'), '^(.*?)(?:\\000(\d+))?\\000$'))[2])::oid = altered.oid
                and c.xmin::text::bigint > 2
                and (c.xmin::text::bigint - pg_current_xact_id()::text::bigint & 4294967295) < 1073741824
                and pg_xact_status((pg_current_xact_id()::text::bigint
                    + (c.xmin::text::bigint - pg_current_xact_id()::text::bigint & 4294967295))::text::xid8)
                    = 'in progress' and exists (
                    select from pg_partition_tree(known.tgrelid) part where part.isleaf and pg_relation_size(part.relid) > 0
                    union all select where pg_relation_size(known.tgrelid) > 0));
        continue when altered.is_above and not (brings_rows or takes_rows);
        lock table rowtide.control in row exclusive mode;
        if not exists (select from pg_class c join pg_roles owner on owner.oid = c.relowner
                       where c.oid = 'rowtide.control'::regclass and (owner.rolname = current_user or owner.rolsuper))
        then
            raise exception 'rowtide.control belongs to another role';
        end if;
        insert into rowtide.control (kind, content) values ('ddl', json_build_object(
            'source_id', altered.oid::bigint,
            'schema', altered.nspname,
            'table', altered.relname,
            'is_inherited', altered.is_inherited,
            'command', tg_tag,
            'statement', left(coalesce(current_query(), ''), 10000),
            'rewrites_values', coalesce(altered.oid::bigint::text = any(rewritten), false),
            'moves_rows', brings_rows or takes_rows,
            'brings_rows', brings_rows,
            'is_inferred', false,
            'columns', (
                select coalesce(json_agg(json_build_object(
                    'number', a.attnum,
                    'name', a.attname,
                    'type_text', 
(select case when named.typnamespace <> 'pg_catalog'::regnamespace and pg_type_is_visible(named.oid)
             then quote_ident(n.nspname) || '.' else '' end || format_type(t.oid, a.atttypmod)
 from pg_type t
 join pg_type named on named.oid = case when t.typelem <> 0 and t.typlen = -1 then t.typelem else t.oid end
 join pg_namespace n on n.oid = named.typnamespace
 where t.oid = a.atttypid)
,
                    'type_code', a.atttypid::bigint,
                    'type_modifier', a.atttypmod,
                    'base_type_text', 
(with recursive below (type_code, modifier) as (
    select t.typbasetype, t.typtypmod from pg_type t where t.oid = a.atttypid and t.typtype = 'd'
    union all
    select t.typbasetype, t.typtypmod from below join pg_type t on t.oid = below.type_code where t.typtype = 'd')
 select 
(select case when named.typnamespace <> 'pg_catalog'::regnamespace and pg_type_is_visible(named.oid)
             then quote_ident(n.nspname) || '.' else '' end || format_type(t.oid, below.modifier)
 from pg_type t
 join pg_type named on named.oid = case when t.typelem <> 0 and t.typlen = -1 then t.typelem else t.oid end
 join pg_namespace n on n.oid = named.typnamespace
 where t.oid = below.type_code)

 from below join pg_type base on base.oid = below.type_code where base.typtype <> 'd')
,
                    'is_nullable', not a.attnotnull,
                    'is_generated', a.attgenerated <> '',
                    'is_virtual', a.attgenerated = 'v',
                    'default', (select pg_get_expr(f.adbin, f.adrelid) from pg_attrdef f
                                where f.adrelid = a.attrelid and f.adnum = a.attnum),
                    'collation', 
(select quote_ident(n.nspname) || '.' || quote_ident(l.collname)
 from pg_collation l join pg_namespace n on n.oid = l.collnamespace join pg_type t on t.oid = a.atttypid
 where l.oid = a.attcollation and a.attcollation <> t.typcollation)
,
                    'missing_value', (coalesce(a.attmissingval, (
                        select part.attmissingval from pg_partition_tree(a.attrelid) p
                        join pg_attribute part on part.attrelid = p.relid and part.attname = a.attname
                        where p.isleaf and part.atthasmissing limit 1))::text::text[])[1]
                ) order by a.attnum), '[]')
                from pg_attribute a
                where a.attrelid = altered.oid and a.attnum > 0 and not a.attisdropped),
            'keys', (
                select coalesce(json_agg((
                    select json_agg(k.number order by k.place)
                    from unnest(i.indkey::int2[]) with ordinality k(number, place)
                    where k.place <= i.indnkeyatts)), '[]')
                from pg_index i
                where i.indrelid = altered.oid and i.indisunique and i.indimmediate and i.indisvalid
                    and i.indpred is null and i.indexprs is null and not exists (
                        select from unnest(i.indkey::int2[]) with ordinality k(number, place)
                        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
                        where k.place <= i.indnkeyatts and not a.attnotnull))
        )::text);
        for unloggable in 
            select n.nspname, c.relname, case i.identity when 'd' then 'default'
                else format('using index %I', i.identity_index) end as clause
            from rowtide.identities i
            join pg_class c on c.oid::bigint = i.source_table_id join pg_namespace n on n.oid = c.relnamespace
            where i.captured_table_id = altered.oid::bigint and c.relreplident = 'f'
                and exists (select from pg_attribute a
                            where a.attrelid = c.oid and a.attgenerated = 'v' and not a.attisdropped)
                and (i.identity = 'i' or i.identity = 'd' and exists (
                    select from pg_index x where x.indrelid = c.oid and x.indisprimary and x.indimmediate))
        loop
            execute format('alter table %I.%I replica identity %s', unloggable.nspname, unloggable.relname,
                           unloggable.clause);
        end loop;
    end loop;
    perform set_config('rowtide.rewritten', '', true);
exception when others then
    raise warning 'rowtide: what was done to a captured or published table is not recorded: %', sqlerrm;
end $_$;


ALTER FUNCTION rowtide.rowtide_announce_ddl() OWNER TO postgres;

--
-- Name: rowtide_announce_drop(); Type: FUNCTION; Schema: rowtide; Owner: postgres
--

CREATE FUNCTION rowtide.rowtide_announce_drop() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "DateStyle" TO 'ISO, MDY'
    SET "IntervalStyle" TO 'iso_8601'
    SET extra_float_digits TO '3'
    SET bytea_output TO 'hex'
    SET "TimeZone" TO 'UTC'
    SET lc_monetary TO 'C'
    SET xmlbinary TO 'base64'
    SET quote_all_identifiers TO 'off'
    AS $$
declare
    gone record;
begin
    for gone in
        delete from rowtide.members m using pg_event_trigger_dropped_objects() d
        where d.classid = 'pg_class'::regclass and d.objsubid = 0 and m.source_table_id = d.objid::bigint
          and m.feature <> 'log'
        returning m.member_id, m.feature, m.name, m.source_table_id, m.source_schema, m.source_name
    loop
        delete from rowtide.identities where source_table_id = gone.source_table_id;
        delete from rowtide.dropped_members where dropped_at < now() - interval '1 month';
        insert into rowtide.dropped_members (member_id, feature, name, source_schema, source_name)
        values (gone.member_id, gone.feature, gone.name, gone.source_schema, gone.source_name);
        lock table rowtide.control in row exclusive mode;
        if not exists (select from pg_class c join pg_roles owner on owner.oid = c.relowner
                       where c.oid = 'rowtide.control'::regclass and (owner.rolname = current_user or owner.rolsuper))
        then
            raise exception 'rowtide.control belongs to another role';
        end if;
        insert into rowtide.control (kind, content)
        values ('disable', json_build_object('member_id', gone.member_id)::text);
    end loop;
exception when others then
    raise warning 'rowtide: what was done to a captured or published table is not recorded: %', sqlerrm;
end $$;


ALTER FUNCTION rowtide.rowtide_announce_drop() OWNER TO postgres;

--
-- Name: rowtide_announce_gone(); Type: FUNCTION; Schema: rowtide; Owner: postgres
--

CREATE FUNCTION rowtide.rowtide_announce_gone() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "DateStyle" TO 'ISO, MDY'
    SET "IntervalStyle" TO 'iso_8601'
    SET extra_float_digits TO '3'
    SET bytea_output TO 'hex'
    SET "TimeZone" TO 'UTC'
    SET lc_monetary TO 'C'
    SET xmlbinary TO 'base64'
    SET quote_all_identifiers TO 'off'
    AS $$
-- set DateStyle = 'ISO, MDY' set IntervalStyle = 'iso_8601' set extra_float_digits = '3' set bytea_output = 'hex' set TimeZone = 'UTC' set lc_monetary = 'C' set xmlbinary = 'base64' set quote_all_identifiers = 'off'
declare
    altered record;
    without_index oid[] := '{}';
begin
    if to_regclass('cdc.change_tables') is not null
        and exists (select from pg_event_trigger_dropped_objects() where object_type = 'index')
    then
        execute 'select array_agg(t.source_object_id::oid) from cdc.change_tables t where t.index_name is not null and '
            'not exists (select from pg_index i join pg_class x on x.oid = i.indexrelid '
            'where i.indrelid = t.source_object_id::oid and x.relname = t.index_name)' into without_index;
    end if;
    for altered in
        select distinct c.oid, n.nspname, c.relname, true as takes_rows
        from pg_event_trigger_dropped_objects() gone
        join pg_trigger whole on whole.tgname = replace(gone.address_names[3], '_partition_', '_before_whole_')
            and whole.tgfoid = to_regprocedure('rowtide.announce_truncate()')
        join pg_class c on c.oid = whole.tgrelid
        join pg_namespace n on n.oid = c.relnamespace
        join pg_publication_rel r on r.prrelid = c.oid
        join pg_publication p on p.oid = r.prpubid
        join pg_database here on here.datname = current_database()
        where p.pubname = 'rowtide_' || here.oid and gone.classid = 'pg_trigger'::regclass and exists (
            select from pg_event_trigger_dropped_objects() part
            where part.classid = 'pg_class'::regclass and part.address_names = gone.address_names[1:2])
        union all
        select c.oid, n.nspname, c.relname, false
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        join pg_publication_rel r on r.prrelid = c.oid
        join pg_publication p on p.oid = r.prpubid
        join pg_database here on here.datname = current_database()
        where p.pubname = 'rowtide_' || here.oid and tg_tag not in ('ALTER TABLE', 'ALTER SCHEMA', 'ALTER TYPE') and (
            c.oid = any(without_index) or exists (
                select from pg_event_trigger_dropped_objects() part
                where part.classid = 'pg_class'::regclass and part.objid = c.oid and part.objsubid > 0))
        order by 1
    loop
        lock table rowtide.control in row exclusive mode;
        if not exists (select from pg_class c join pg_roles owner on owner.oid = c.relowner
                       where c.oid = 'rowtide.control'::regclass and (owner.rolname = current_user or owner.rolsuper))
        then
            raise exception 'rowtide.control belongs to another role';
        end if;
        insert into rowtide.control (kind, content) values ('ddl', json_build_object(
            'source_id', altered.oid::bigint,
            'schema', altered.nspname,
            'table', altered.relname,
            'is_inherited', false,
            'command', tg_tag,
            'statement', left(coalesce(current_query(), ''), 10000),
            'rewrites_values', false,
            'moves_rows', altered.takes_rows,
            'brings_rows', false,
            'is_inferred', false,
            'columns', (
                select coalesce(json_agg(json_build_object(
                    'number', a.attnum,
                    'name', a.attname,
                    'type_text', 
(select case when named.typnamespace <> 'pg_catalog'::regnamespace and pg_type_is_visible(named.oid)
             then quote_ident(n.nspname) || '.' else '' end || format_type(t.oid, a.atttypmod)
 from pg_type t
 join pg_type named on named.oid = case when t.typelem <> 0 and t.typlen = -1 then t.typelem else t.oid end
 join pg_namespace n on n.oid = named.typnamespace
 where t.oid = a.atttypid)
,
                    'type_code', a.atttypid::bigint,
                    'type_modifier', a.atttypmod,
                    'base_type_text', 
(with recursive below (type_code, modifier) as (
    select t.typbasetype, t.typtypmod from pg_type t where t.oid = a.atttypid and t.typtype = 'd'
    union all
    select t.typbasetype, t.typtypmod from below join pg_type t on t.oid = below.type_code where t.typtype = 'd')
 select 
(select case when named.typnamespace <> 'pg_catalog'::regnamespace and pg_type_is_visible(named.oid)
             then quote_ident(n.nspname) || '.' else '' end || format_type(t.oid, below.modifier)
 from pg_type t
 join pg_type named on named.oid = case when t.typelem <> 0 and t.typlen = -1 then t.typelem else t.oid end
 join pg_namespace n on n.oid = named.typnamespace
 where t.oid = below.type_code)

 from below join pg_type base on base.oid = below.type_code where base.typtype <> 'd')
,
                    'is_nullable', not a.attnotnull,
                    'is_generated', a.attgenerated <> '',
                    'is_virtual', a.attgenerated = 'v',
                    'default', (select pg_get_expr(f.adbin, f.adrelid) from pg_attrdef f
                                where f.adrelid = a.attrelid and f.adnum = a.attnum),
                    'collation', 
(select quote_ident(n.nspname) || '.' || quote_ident(l.collname)
 from pg_collation l join pg_namespace n on n.oid = l.collnamespace join pg_type t on t.oid = a.atttypid
 where l.oid = a.attcollation and a.attcollation <> t.typcollation)
,
                    'missing_value', (coalesce(a.attmissingval, (
                        select part.attmissingval from pg_partition_tree(a.attrelid) p
                        join pg_attribute part on part.attrelid = p.relid and part.attname = a.attname
                        where p.isleaf and part.atthasmissing limit 1))::text::text[])[1]
                ) order by a.attnum), '[]')
                from pg_attribute a
                where a.attrelid = altered.oid and a.attnum > 0 and not a.attisdropped),
            'keys', (
                select coalesce(json_agg((
                    select json_agg(k.number order by k.place)
                    from unnest(i.indkey::int2[]) with ordinality k(number, place)
                    where k.place <= i.indnkeyatts)), '[]')
                from pg_index i
                where i.indrelid = altered.oid and i.indisunique and i.indimmediate and i.indisvalid
                    and i.indpred is null and i.indexprs is null and not exists (
                        select from unnest(i.indkey::int2[]) with ordinality k(number, place)
                        join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.number
                        where k.place <= i.indnkeyatts and not a.attnotnull))
        )::text);
    end loop;
exception when others then
    raise warning 'rowtide: what was done to a captured or published table is not recorded: %', sqlerrm;
end $$;


ALTER FUNCTION rowtide.rowtide_announce_gone() OWNER TO postgres;

--
-- Name: rowtide_attach_partitions(); Type: FUNCTION; Schema: rowtide; Owner: postgres
--

CREATE FUNCTION rowtide.rowtide_attach_partitions() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "DateStyle" TO 'ISO, MDY'
    SET "IntervalStyle" TO 'iso_8601'
    SET extra_float_digits TO '3'
    SET bytea_output TO 'hex'
    SET "TimeZone" TO 'UTC'
    SET lc_monetary TO 'C'
    SET xmlbinary TO 'base64'
    SET quote_all_identifiers TO 'off'
    AS $_$
declare
    found record;
begin
    if exists (select from pg_event_trigger_ddl_commands() d join pg_class c on c.oid = d.objid
               where d.classid = 'pg_class'::regclass and (c.relkind = 'p' or c.relispartition))
    then
        
    for found in 
        select whole.tgrelid as table_id, part.relid as partition_id, n.nspname as schema, leaf.relname as name,
            replace(whole.tgname, 'before_whole', 'partition') as trigger,
            convert_from(decode((regexp_match(encode(whole.tgargs, 'escape'), '^(.*?)(?:\\000(\d+))?\\000$'))[1], 'escape'),
                         current_setting('server_encoding')) as way_out
        from pg_trigger whole
        cross join pg_partition_tree(whole.tgrelid) part
        join pg_class leaf on leaf.oid = part.relid and leaf.relkind = 'r'
        join pg_namespace n on n.oid = leaf.relnamespace
        where whole.tgfoid = to_regprocedure('rowtide.announce_truncate()') and whole.tgname like 'rowtide\_before\_whole\_%'
          and not exists (select from pg_trigger own where own.tgrelid = leaf.oid
                          and own.tgname = replace(whole.tgname, 'before_whole', 'partition')) and whole.tgrelid in (
            select above.relid from pg_event_trigger_ddl_commands() d, pg_partition_ancestors(d.objid) above
            where d.classid = 'pg_class'::regclass)
    loop
        begin
            execute format('lock table %I.%I in share row exclusive mode nowait', found.schema, found.name);
            execute format('create trigger %I before truncate on %I.%I for each statement '
                'execute function rowtide.refuse_partition_truncate(%L, %L)',
                found.trigger, found.schema, found.name,
                coalesce(nullif(found.way_out, ''), 'drop what reads the table'), found.table_id::bigint);
        exception when lock_not_available then
            null; -- it is in use, so it came with an earlier statement
        end;
    end loop;
    for found in
        select n.nspname as schema, c.relname as name, own.tgname as trigger
        from pg_trigger own join pg_class c on c.oid = own.tgrelid join pg_namespace n on n.oid = c.relnamespace
        where own.tgfoid = to_regprocedure('rowtide.refuse_partition_truncate()')
                and not exists (select from pg_partition_ancestors(own.tgrelid) above
                                where above.relid = ((regexp_match(encode(own.tgargs, 'escape'), '^(.*?)(?:\\000(\d+))?\\000$'))[2])::oid) and ((regexp_match(encode(own.tgargs, 'escape'), '^(.*?)(?:\\000(\d+))?\\000$'))[2])::oid in (
            select above.relid from pg_event_trigger_ddl_commands() d, pg_partition_ancestors(d.objid) above
            where d.classid = 'pg_class'::regclass)
    loop
        begin
            execute format('lock table %I.%I in access exclusive mode nowait', found.schema, found.name);
            execute format('drop trigger %I on %I.%I', found.trigger, found.schema, found.name);
        exception when lock_not_available then
            null;
        end;
    end loop;

    end if;
exception when others then
    raise warning 'rowtide: what was done to a captured or published table is not recorded: %', sqlerrm;
end $_$;


ALTER FUNCTION rowtide.rowtide_attach_partitions() OWNER TO postgres;

--
-- Name: rowtide_note_rewrite(); Type: FUNCTION; Schema: rowtide; Owner: postgres
--

CREATE FUNCTION rowtide.rowtide_note_rewrite() RETURNS event_trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET "DateStyle" TO 'ISO, MDY'
    SET "IntervalStyle" TO 'iso_8601'
    SET extra_float_digits TO '3'
    SET bytea_output TO 'hex'
    SET "TimeZone" TO 'UTC'
    SET lc_monetary TO 'C'
    SET xmlbinary TO 'base64'
    SET quote_all_identifiers TO 'off'
    AS $$
begin
    if pg_event_trigger_table_rewrite_reason() & 4 <> 0 then
        perform set_config('rowtide.rewritten', concat_ws(' ', current_setting('rowtide.rewritten', true), (
            select string_agg(above.oid::bigint::text, ' ')
            from (select pg_event_trigger_table_rewrite_oid() as oid
                  union select relid from pg_partition_ancestors(pg_event_trigger_table_rewrite_oid())) above)), true);
    end if;
exception when others then
    raise warning 'rowtide: what was done to a captured or published table is not recorded: %', sqlerrm;
end $$;


ALTER FUNCTION rowtide.rowtide_note_rewrite() OWNER TO postgres;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: MSarticle_changes; Type: TABLE; Schema: distribution; Owner: postgres
--

CREATE TABLE distribution."MSarticle_changes" (
    id integer NOT NULL,
    agent_id integer NOT NULL,
    article_id text NOT NULL,
    from_position bigint NOT NULL,
    change text NOT NULL
);


ALTER TABLE distribution."MSarticle_changes" OWNER TO postgres;

--
-- Name: COLUMN "MSarticle_changes".from_position; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSarticle_changes".from_position IS 'from which position of the log on it holds';


--
-- Name: COLUMN "MSarticle_changes".change; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSarticle_changes".change IS 'JSON: what becomes of the article as the subscriber has it';


--
-- Name: MSarticle_changes_id_seq; Type: SEQUENCE; Schema: distribution; Owner: postgres
--

ALTER TABLE distribution."MSarticle_changes" ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME distribution."MSarticle_changes_id_seq"
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: MSarticles; Type: TABLE; Schema: distribution; Owner: postgres
--

CREATE TABLE distribution."MSarticles" (
    article_id text NOT NULL,
    publication_id integer NOT NULL,
    article text NOT NULL,
    source_object_id bigint NOT NULL,
    source_owner text NOT NULL,
    source_object text NOT NULL,
    ins_cmd text NOT NULL,
    upd_cmd text NOT NULL,
    del_cmd text NOT NULL,
    ins_proc text NOT NULL,
    upd_proc text NOT NULL,
    filter_clause text,
    del_proc text NOT NULL,
    definition text NOT NULL
);


ALTER TABLE distribution."MSarticles" OWNER TO postgres;

--
-- Name: COLUMN "MSarticles".article_id; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSarticles".article_id IS 'the article''s member of the log';


--
-- Name: COLUMN "MSarticles".ins_proc; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSarticles".ins_proc IS 'of the generated one, called or not';


--
-- Name: COLUMN "MSarticles".definition; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSarticles".definition IS 'JSON: all of it, as it was published';


--
-- Name: MScustom_scripts; Type: TABLE; Schema: distribution; Owner: postgres
--

CREATE TABLE distribution."MScustom_scripts" (
    article_id text NOT NULL,
    from_seqno bigint NOT NULL,
    name text,
    script text
);


ALTER TABLE distribution."MScustom_scripts" OWNER TO postgres;

--
-- Name: COLUMN "MScustom_scripts".from_seqno; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MScustom_scripts".from_seqno IS 'it runs with schema changes from this position on';


--
-- Name: COLUMN "MScustom_scripts".name; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MScustom_scripts".name IS 'the file, or module:function; null: from here on there is none';


--
-- Name: COLUMN "MScustom_scripts".script; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MScustom_scripts".script IS 'SQL; null: what the function returns';


--
-- Name: MSdetached_articles; Type: TABLE; Schema: distribution; Owner: postgres
--

CREATE TABLE distribution."MSdetached_articles" (
    agent_id integer NOT NULL,
    subscription_guid text NOT NULL,
    article_id text NOT NULL,
    definition text NOT NULL
);


ALTER TABLE distribution."MSdetached_articles" OWNER TO postgres;

--
-- Name: COLUMN "MSdetached_articles".subscription_guid; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdetached_articles".subscription_guid IS 'by which the subscriber knows the article';


--
-- Name: COLUMN "MSdetached_articles".definition; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdetached_articles".definition IS 'JSON: the article as the subscriber has it';


--
-- Name: MSdistribution_agents; Type: TABLE; Schema: distribution; Owner: postgres
--

CREATE TABLE distribution."MSdistribution_agents" (
    id integer NOT NULL,
    publication_id integer NOT NULL,
    subscriber text NOT NULL,
    constraints text,
    forwards boolean DEFAULT true NOT NULL,
    resumptions integer DEFAULT 0 NOT NULL,
    subscription_guid text NOT NULL,
    settings text,
    joins integer,
    replaces text,
    if_exists text,
    ready_at bigint
);


ALTER TABLE distribution."MSdistribution_agents" OWNER TO postgres;

--
-- Name: COLUMN "MSdistribution_agents".subscriber; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_agents".subscriber IS 'its URL, without a password';


--
-- Name: COLUMN "MSdistribution_agents".constraints; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_agents".constraints IS 'whether the subscriber''s own act on what is delivered; null: not asked';


--
-- Name: COLUMN "MSdistribution_agents".forwards; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_agents".forwards IS 'whether changes are delivered too that the publisher has received';


--
-- Name: COLUMN "MSdistribution_agents".resumptions; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_agents".resumptions IS 'how often it was resumed';


--
-- Name: COLUMN "MSdistribution_agents".subscription_guid; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_agents".subscription_guid IS 'what the subscriber''s progress goes by';


--
-- Name: COLUMN "MSdistribution_agents".settings; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_agents".settings IS 'JSON: of SubscriptionSettings what is not the default';


--
-- Name: COLUMN "MSdistribution_agents".joins; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_agents".joins IS 'the agent whose subscription its article joins; null: it is a subscription';


--
-- Name: COLUMN "MSdistribution_agents".replaces; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_agents".replaces IS 'JSON: the article, as the subscriber has it, whose place its article takes';


--
-- Name: COLUMN "MSdistribution_agents".if_exists; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_agents".if_exists IS 'what becomes of the table of a joining article';


--
-- Name: COLUMN "MSdistribution_agents".ready_at; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_agents".ready_at IS 'everything of a joining article below this position is delivered';


--
-- Name: MSdistribution_agents_id_seq; Type: SEQUENCE; Schema: distribution; Owner: postgres
--

ALTER TABLE distribution."MSdistribution_agents" ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME distribution."MSdistribution_agents_id_seq"
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: MSdistribution_history; Type: TABLE; Schema: distribution; Owner: postgres
--

CREATE TABLE distribution."MSdistribution_history" (
    id bigint NOT NULL,
    agent_id integer NOT NULL,
    runstatus integer NOT NULL,
    start_time timestamp with time zone NOT NULL,
    "time" timestamp with time zone NOT NULL,
    duration integer NOT NULL,
    comments text NOT NULL,
    xact_seqno bigint,
    delivered_transactions bigint NOT NULL,
    delivered_commands bigint NOT NULL,
    delivery_rate double precision NOT NULL,
    delivery_latency bigint,
    total_delivered_commands bigint NOT NULL,
    error_id bigint
);


ALTER TABLE distribution."MSdistribution_history" OWNER TO postgres;

--
-- Name: COLUMN "MSdistribution_history".start_time; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_history".start_time IS 'of the agent';


--
-- Name: COLUMN "MSdistribution_history".duration; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_history".duration IS 'seconds since the start';


--
-- Name: COLUMN "MSdistribution_history".xact_seqno; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_history".xact_seqno IS 'everything below is delivered';


--
-- Name: COLUMN "MSdistribution_history".delivered_transactions; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_history".delivered_transactions IS 'since the start';


--
-- Name: COLUMN "MSdistribution_history".delivered_commands; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_history".delivered_commands IS 'since the start';


--
-- Name: COLUMN "MSdistribution_history".delivery_rate; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_history".delivery_rate IS 'commands per second of batches, since the start';


--
-- Name: COLUMN "MSdistribution_history".delivery_latency; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_history".delivery_latency IS 'milliseconds from the publisher''s commit to the subscriber''s';


--
-- Name: COLUMN "MSdistribution_history".total_delivered_commands; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_history".total_delivered_commands IS 'of the subscription';


--
-- Name: MSdistribution_history_id_seq; Type: SEQUENCE; Schema: distribution; Owner: postgres
--

ALTER TABLE distribution."MSdistribution_history" ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME distribution."MSdistribution_history_id_seq"
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: MSdistributiondbs; Type: TABLE; Schema: distribution; Owner: postgres
--

CREATE TABLE distribution."MSdistributiondbs" (
    name text NOT NULL,
    min_distretention integer DEFAULT 0 NOT NULL,
    max_distretention integer DEFAULT 72 NOT NULL
);


ALTER TABLE distribution."MSdistributiondbs" OWNER TO postgres;

--
-- Name: COLUMN "MSdistributiondbs".min_distretention; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistributiondbs".min_distretention IS 'hours';


--
-- Name: COLUMN "MSdistributiondbs".max_distretention; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistributiondbs".max_distretention IS 'hours that a subscription may be behind';


--
-- Name: MSpublications; Type: TABLE; Schema: distribution; Owner: postgres
--

CREATE TABLE distribution."MSpublications" (
    publication_id integer NOT NULL,
    publication text NOT NULL,
    publisher_db text NOT NULL,
    replicate_ddl boolean DEFAULT true NOT NULL,
    latency_threshold_s integer,
    expiration_threshold integer,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);


ALTER TABLE distribution."MSpublications" OWNER TO postgres;

--
-- Name: COLUMN "MSpublications".latency_threshold_s; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSpublications".latency_threshold_s IS 'changes that wait for longer are a warning; null: the default';


--
-- Name: COLUMN "MSpublications".expiration_threshold; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSpublications".expiration_threshold IS 'percent of the retention after which waiting changes are a warning; null: the default';


--
-- Name: MSpublications_publication_id_seq; Type: SEQUENCE; Schema: distribution; Owner: postgres
--

ALTER TABLE distribution."MSpublications" ALTER COLUMN publication_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME distribution."MSpublications_publication_id_seq"
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: MSrepairs; Type: TABLE; Schema: distribution; Owner: postgres
--

CREATE TABLE distribution."MSrepairs" (
    repair_id text NOT NULL,
    ordinal integer NOT NULL,
    agent_id integer NOT NULL,
    "time" timestamp with time zone NOT NULL,
    xact_seqno bigint NOT NULL,
    article text NOT NULL,
    action text NOT NULL,
    key text NOT NULL,
    before text,
    after text
);


ALTER TABLE distribution."MSrepairs" OWNER TO postgres;

--
-- Name: COLUMN "MSrepairs".repair_id; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSrepairs".repair_id IS 'of the transaction at the subscriber';


--
-- Name: COLUMN "MSrepairs".xact_seqno; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSrepairs".xact_seqno IS 'the position at which the row was repaired';


--
-- Name: COLUMN "MSrepairs".key; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSrepairs".key IS 'JSON: texts by column';


--
-- Name: COLUMN "MSrepairs".before; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSrepairs".before IS 'JSON: what the subscriber had; null: no row';


--
-- Name: COLUMN "MSrepairs".after; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSrepairs".after IS 'JSON: what is published; null: no row';


--
-- Name: MSrepl_errors; Type: TABLE; Schema: distribution; Owner: postgres
--

CREATE TABLE distribution."MSrepl_errors" (
    id bigint NOT NULL,
    "time" timestamp with time zone NOT NULL,
    source_name text NOT NULL,
    error_code text NOT NULL,
    error_text text NOT NULL,
    xact_seqno bigint,
    command_id bigint
);


ALTER TABLE distribution."MSrepl_errors" OWNER TO postgres;

--
-- Name: COLUMN "MSrepl_errors".source_name; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSrepl_errors".source_name IS 'the subscriber, or the log reader';


--
-- Name: COLUMN "MSrepl_errors".xact_seqno; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSrepl_errors".xact_seqno IS 'the transaction of the command that failed; null: it was no command';


--
-- Name: COLUMN "MSrepl_errors".command_id; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSrepl_errors".command_id IS 'the command''s place in its transaction, from 1';


--
-- Name: MSrepl_errors_id_seq; Type: SEQUENCE; Schema: distribution; Owner: postgres
--

ALTER TABLE distribution."MSrepl_errors" ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME distribution."MSrepl_errors_id_seq"
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: MSschemaarticles; Type: TABLE; Schema: distribution; Owner: postgres
--

CREATE TABLE distribution."MSschemaarticles" (
    article_id text NOT NULL,
    publication_id integer NOT NULL,
    type text NOT NULL,
    source_object_id bigint NOT NULL,
    source_owner text NOT NULL,
    source_object text NOT NULL
);


ALTER TABLE distribution."MSschemaarticles" OWNER TO postgres;

--
-- Name: COLUMN "MSschemaarticles".source_object; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSschemaarticles".source_object IS 'as SQL needs it; of a function with its parameters';


--
-- Name: MSsubscriptions; Type: TABLE; Schema: distribution; Owner: postgres
--

CREATE TABLE distribution."MSsubscriptions" (
    agent_id integer NOT NULL,
    article_id text NOT NULL,
    sync_type text NOT NULL,
    subscription_seqno bigint NOT NULL,
    status integer DEFAULT 2 NOT NULL,
    subscription_time timestamp with time zone DEFAULT now() NOT NULL,
    definition text
);


ALTER TABLE distribution."MSsubscriptions" OWNER TO postgres;

--
-- Name: COLUMN "MSsubscriptions".subscription_seqno; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSsubscriptions".subscription_seqno IS 'changes are delivered from this position on';


--
-- Name: COLUMN "MSsubscriptions".definition; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSsubscriptions".definition IS 'JSON: the article as the subscriber has it; null: as MSarticles has it';


--
-- Name: MStracer_history; Type: TABLE; Schema: distribution; Owner: postgres
--

CREATE TABLE distribution."MStracer_history" (
    parent_tracer_id bigint NOT NULL,
    agent_id integer NOT NULL,
    subscriber_commit timestamp with time zone
);


ALTER TABLE distribution."MStracer_history" OWNER TO postgres;

--
-- Name: MStracer_tokens; Type: TABLE; Schema: distribution; Owner: postgres
--

CREATE TABLE distribution."MStracer_tokens" (
    tracer_id bigint NOT NULL,
    publication_id integer NOT NULL,
    posted_at timestamp with time zone DEFAULT now() NOT NULL,
    publisher_commit timestamp with time zone,
    distributor_commit timestamp with time zone
);


ALTER TABLE distribution."MStracer_tokens" OWNER TO postgres;

--
-- Name: COLUMN "MStracer_tokens".distributor_commit; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MStracer_tokens".distributor_commit IS 'when it was durable in the log store';


--
-- Name: MStracer_tokens_tracer_id_seq; Type: SEQUENCE; Schema: distribution; Owner: postgres
--

ALTER TABLE distribution."MStracer_tokens" ALTER COLUMN tracer_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME distribution."MStracer_tokens_tracer_id_seq"
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: rowtide_format; Type: VIEW; Schema: distribution; Owner: postgres
--

CREATE VIEW distribution.rowtide_format AS
 SELECT 1 AS number,
    1 AS least_reader,
    1 AS least_writer;


ALTER VIEW distribution.rowtide_format OWNER TO postgres;

--
-- Name: odd, table; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public."odd, table" (
    id integer NOT NULL,
    "a, b" text,
    "per cent %" integer,
    "größe=" text
);

ALTER TABLE ONLY public."odd, table" REPLICA IDENTITY FULL;


ALTER TABLE public."odd, table" OWNER TO postgres;

--
-- Name: orders; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.orders (
    id integer NOT NULL,
    item text,
    qty integer
);

ALTER TABLE ONLY public.orders REPLICA IDENTITY FULL;


ALTER TABLE public.orders OWNER TO postgres;

--
-- Name: control; Type: TABLE; Schema: rowtide; Owner: postgres
--

CREATE TABLE rowtide.control (
    id bigint NOT NULL,
    kind text NOT NULL,
    content text NOT NULL,
    xid xid8 DEFAULT pg_current_xact_id() NOT NULL,
    written_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);


ALTER TABLE rowtide.control OWNER TO postgres;

--
-- Name: control_id_seq; Type: SEQUENCE; Schema: rowtide; Owner: postgres
--

ALTER TABLE rowtide.control ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME rowtide.control_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: dropped_members; Type: TABLE; Schema: rowtide; Owner: postgres
--

CREATE TABLE rowtide.dropped_members (
    member_id text NOT NULL,
    feature text NOT NULL,
    name text NOT NULL,
    source_schema text NOT NULL,
    source_name text NOT NULL,
    dropped_at timestamp with time zone DEFAULT now() NOT NULL
);


ALTER TABLE rowtide.dropped_members OWNER TO postgres;

--
-- Name: TABLE dropped_members; Type: COMMENT; Schema: rowtide; Owner: postgres
--

COMMENT ON TABLE rowtide.dropped_members IS 'members that ended because their tables were dropped, for a month';


--
-- Name: features; Type: TABLE; Schema: rowtide; Owner: postgres
--

CREATE TABLE rowtide.features (
    feature text NOT NULL
);


ALTER TABLE rowtide.features OWNER TO postgres;

--
-- Name: COLUMN features.feature; Type: COMMENT; Schema: rowtide; Owner: postgres
--

COMMENT ON COLUMN rowtide.features.feature IS 'for what the log is read: the last one takes the source away';


--
-- Name: identities; Type: TABLE; Schema: rowtide; Owner: postgres
--

CREATE TABLE rowtide.identities (
    source_table_id bigint NOT NULL,
    identity text NOT NULL,
    identity_index text,
    captured_table_id bigint NOT NULL
);


ALTER TABLE rowtide.identities OWNER TO postgres;

--
-- Name: COLUMN identities.identity; Type: COMMENT; Schema: rowtide; Owner: postgres
--

COMMENT ON COLUMN rowtide.identities.identity IS 'the replica identity before the first member, put back by the last';


--
-- Name: COLUMN identities.captured_table_id; Type: COMMENT; Schema: rowtide; Owner: postgres
--

COMMENT ON COLUMN rowtide.identities.captured_table_id IS 'whose members: the table''s own, or its root''s';


--
-- Name: identities_source_table_id_seq; Type: SEQUENCE; Schema: rowtide; Owner: postgres
--

CREATE SEQUENCE rowtide.identities_source_table_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER SEQUENCE rowtide.identities_source_table_id_seq OWNER TO postgres;

--
-- Name: identities_source_table_id_seq; Type: SEQUENCE OWNED BY; Schema: rowtide; Owner: postgres
--

ALTER SEQUENCE rowtide.identities_source_table_id_seq OWNED BY rowtide.identities.source_table_id;


--
-- Name: members; Type: TABLE; Schema: rowtide; Owner: postgres
--

CREATE TABLE rowtide.members (
    member_id text NOT NULL,
    feature text NOT NULL,
    name text NOT NULL,
    source_table_id bigint NOT NULL,
    source_schema text NOT NULL,
    source_name text NOT NULL,
    publication_entry_id bigint NOT NULL
);


ALTER TABLE rowtide.members OWNER TO postgres;

--
-- Name: COLUMN members.publication_entry_id; Type: COMMENT; Schema: rowtide; Owner: postgres
--

COMMENT ON COLUMN rowtide.members.publication_entry_id IS 'changes when the table is dropped and re-added';


--
-- Name: rowtide_format; Type: VIEW; Schema: rowtide; Owner: postgres
--

CREATE VIEW rowtide.rowtide_format AS
 SELECT 1 AS number,
    1 AS least_reader,
    1 AS least_writer;


ALTER VIEW rowtide.rowtide_format OWNER TO postgres;

--
-- Name: source; Type: TABLE; Schema: rowtide; Owner: postgres
--

CREATE TABLE rowtide.source (
    source_id text NOT NULL,
    system_identifier text NOT NULL,
    publication text NOT NULL,
    publication_id bigint NOT NULL,
    publication_version text,
    slot text NOT NULL,
    log_store text NOT NULL,
    lake text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);


ALTER TABLE rowtide.source OWNER TO postgres;

--
-- Name: COLUMN source.source_id; Type: COMMENT; Schema: rowtide; Owner: postgres
--

COMMENT ON COLUMN rowtide.source.source_id IS 'new each time it is made: names everything made under it';


--
-- Name: COLUMN source.publication_version; Type: COMMENT; Schema: rowtide; Owner: postgres
--

COMMENT ON COLUMN rowtide.source.publication_version IS 'writer and owner of the publication''s row in the catalogue';


--
-- Name: table_publications; Type: TABLE; Schema: rowtide; Owner: postgres
--

CREATE TABLE rowtide.table_publications (
    publication text NOT NULL,
    publication_entry_id bigint NOT NULL
);


ALTER TABLE rowtide.table_publications OWNER TO postgres;

--
-- Name: COLUMN table_publications.publication; Type: COMMENT; Schema: rowtide; Owner: postgres
--

COMMENT ON COLUMN rowtide.table_publications.publication IS 'of one table alone, beside the publication of all members';


--
-- Name: COLUMN table_publications.publication_entry_id; Type: COMMENT; Schema: rowtide; Owner: postgres
--

COMMENT ON COLUMN rowtide.table_publications.publication_entry_id IS 'changes when the table is dropped and re-added';


--
-- Name: identities source_table_id; Type: DEFAULT; Schema: rowtide; Owner: postgres
--

ALTER TABLE ONLY rowtide.identities ALTER COLUMN source_table_id SET DEFAULT nextval('rowtide.identities_source_table_id_seq'::regclass);


--
-- Data for Name: MSarticle_changes; Type: TABLE DATA; Schema: distribution; Owner: postgres
--

COPY distribution."MSarticle_changes" (id, agent_id, article_id, from_position, change) FROM stdin;
\.


--
-- Data for Name: MSarticles; Type: TABLE DATA; Schema: distribution; Owner: postgres
--

COPY distribution."MSarticles" (article_id, publication_id, article, source_object_id, source_owner, source_object, ins_cmd, upd_cmd, del_cmd, ins_proc, upd_proc, filter_clause, del_proc, definition) FROM stdin;
95e2faa9-7d56-47f5-bfd2-22a875f97a07	1	orders	16775	public	orders	CALL	SCALL	CALL	sp_MSins_publicorders	sp_MSupd_publicorders	qty > 0 or qty is null	sp_MSdel_publicorders	{"article_id":"95e2faa9-7d56-47f5-bfd2-22a875f97a07","publication":"shop","name":"orders","source_id":16775,"schema":"public","table":"orders","columns":[{"number":1,"name":"id","type_text":"integer","type_code":23,"type_modifier":-1,"is_nullable":false,"key_ordinal":1,"value_type_text":"integer","has_deterministic_collation":true},{"number":2,"name":"item","type_text":"text","type_code":25,"type_modifier":-1,"is_nullable":true,"key_ordinal":null,"value_type_text":"text","has_deterministic_collation":true},{"number":3,"name":"qty","type_text":"integer","type_code":23,"type_modifier":-1,"is_nullable":true,"key_ordinal":null,"value_type_text":"integer","has_deterministic_collation":true}],"insert":{"call_format":"CALL","procedure":null},"update":{"call_format":"SCALL","procedure":null},"delete":{"call_format":"CALL","procedure":null},"insert_procedure":"sp_MSins_publicorders","update_procedure":"sp_MSupd_publicorders","delete_procedure":"sp_MSdel_publicorders","before_images":"full","has_all_columns":true,"generated_columns":[],"filter_clause":"qty > 0 or qty is null","is_partitioned":false,"key_updates":"update","moved_partitions":"copy","left_out":[],"defined_at":0,"joined_at":0,"generated":[]}
faad871a-1325-4155-85e2-bab523cf938f	1	odd, table	16782	public	odd, table	CALL	SCALL	CALL	sp_MSins_publicodd, table	sp_MSupd_publicodd, table	\N	sp_MSdel_publicodd, table	{"article_id":"faad871a-1325-4155-85e2-bab523cf938f","publication":"shop","name":"odd, table","source_id":16782,"schema":"public","table":"odd, table","columns":[{"number":1,"name":"id","type_text":"integer","type_code":23,"type_modifier":-1,"is_nullable":false,"key_ordinal":1,"value_type_text":"integer","has_deterministic_collation":true},{"number":2,"name":"a, b","type_text":"text","type_code":25,"type_modifier":-1,"is_nullable":true,"key_ordinal":null,"value_type_text":"text","has_deterministic_collation":true},{"number":3,"name":"per cent %","type_text":"integer","type_code":23,"type_modifier":-1,"is_nullable":true,"key_ordinal":null,"value_type_text":"integer","has_deterministic_collation":true},{"number":4,"name":"größe=","type_text":"text","type_code":25,"type_modifier":-1,"is_nullable":true,"key_ordinal":null,"value_type_text":"text","has_deterministic_collation":true}],"insert":{"call_format":"CALL","procedure":null},"update":{"call_format":"SCALL","procedure":null},"delete":{"call_format":"CALL","procedure":null},"insert_procedure":"sp_MSins_publicodd, table","update_procedure":"sp_MSupd_publicodd, table","delete_procedure":"sp_MSdel_publicodd, table","before_images":"full","has_all_columns":true,"generated_columns":[],"filter_clause":null,"is_partitioned":false,"key_updates":"update","moved_partitions":"copy","left_out":[],"defined_at":0,"joined_at":0,"generated":[]}
03641684-9c58-46f2-937a-e53651f8b6fe	2	orders	16775	public	orders	CALL	SCALL	CALL	sp_MSins_publicorders_03641684	sp_MSupd_publicorders_03641684	\N	sp_MSdel_publicorders_03641684	{"article_id":"03641684-9c58-46f2-937a-e53651f8b6fe","publication":"whole","name":"orders","source_id":16775,"schema":"public","table":"orders","columns":[{"number":1,"name":"id","type_text":"integer","type_code":23,"type_modifier":-1,"is_nullable":false,"key_ordinal":1,"value_type_text":"integer","has_deterministic_collation":true},{"number":3,"name":"qty","type_text":"integer","type_code":23,"type_modifier":-1,"is_nullable":true,"key_ordinal":null,"value_type_text":"integer","has_deterministic_collation":true}],"insert":{"call_format":"CALL","procedure":null},"update":{"call_format":"SCALL","procedure":null},"delete":{"call_format":"CALL","procedure":null},"insert_procedure":"sp_MSins_publicorders_03641684","update_procedure":"sp_MSupd_publicorders_03641684","delete_procedure":"sp_MSdel_publicorders_03641684","before_images":"full","has_all_columns":false,"generated_columns":[],"filter_clause":null,"is_partitioned":false,"key_updates":"update","moved_partitions":"copy","left_out":[],"defined_at":0,"joined_at":0,"generated":[]}
\.


--
-- Data for Name: MScustom_scripts; Type: TABLE DATA; Schema: distribution; Owner: postgres
--

COPY distribution."MScustom_scripts" (article_id, from_seqno, name, script) FROM stdin;
\.


--
-- Data for Name: MSdetached_articles; Type: TABLE DATA; Schema: distribution; Owner: postgres
--

COPY distribution."MSdetached_articles" (agent_id, subscription_guid, article_id, definition) FROM stdin;
\.


--
-- Data for Name: MSdistribution_agents; Type: TABLE DATA; Schema: distribution; Owner: postgres
--

COPY distribution."MSdistribution_agents" (id, publication_id, subscriber, constraints, forwards, resumptions, subscription_guid, settings, joins, replaces, if_exists, ready_at) FROM stdin;
1	1	postgresql://postgres@/subscriber?host={server}&port=5432	\N	f	0	dd42db69-458c-4d1c-ae6b-fa2e2c5e705e	\N	\N	\N	\N	\N
2	1	sqlite:///{folder}/subscriber.db	\N	f	0	223fb4de-69e9-4935-b7ba-492a8dd4ed62	\N	\N	\N	\N	\N
\.


--
-- Data for Name: MSdistribution_history; Type: TABLE DATA; Schema: distribution; Owner: postgres
--

COPY distribution."MSdistribution_history" (id, agent_id, runstatus, start_time, "time", duration, comments, xact_seqno, delivered_transactions, delivered_commands, delivery_rate, delivery_latency, total_delivered_commands, error_id) FROM stdin;
\.


--
-- Data for Name: MSdistributiondbs; Type: TABLE DATA; Schema: distribution; Owner: postgres
--

COPY distribution."MSdistributiondbs" (name, min_distretention, max_distretention) FROM stdin;
publisher	0	72
\.


--
-- Data for Name: MSpublications; Type: TABLE DATA; Schema: distribution; Owner: postgres
--

COPY distribution."MSpublications" (publication_id, publication, publisher_db, replicate_ddl, latency_threshold_s, expiration_threshold, created_at) FROM stdin;
1	shop	publisher	t	\N	\N	2026-11-29 15:51:54.954467+00
2	whole	publisher	t	\N	\N	2026-11-29 15:51:55.021651+00
\.


--
-- Data for Name: MSrepairs; Type: TABLE DATA; Schema: distribution; Owner: postgres
--

COPY distribution."MSrepairs" (repair_id, ordinal, agent_id, "time", xact_seqno, article, action, key, before, after) FROM stdin;
\.


--
-- Data for Name: MSrepl_errors; Type: TABLE DATA; Schema: distribution; Owner: postgres
--

COPY distribution."MSrepl_errors" (id, "time", source_name, error_code, error_text, xact_seqno, command_id) FROM stdin;
\.


--
-- Data for Name: MSschemaarticles; Type: TABLE DATA; Schema: distribution; Owner: postgres
--

COPY distribution."MSschemaarticles" (article_id, publication_id, type, source_object_id, source_owner, source_object) FROM stdin;
\.


--
-- Data for Name: MSsubscriptions; Type: TABLE DATA; Schema: distribution; Owner: postgres
--

COPY distribution."MSsubscriptions" (agent_id, article_id, sync_type, subscription_seqno, status, subscription_time, definition) FROM stdin;
1	faad871a-1325-4155-85e2-bab523cf938f	automatic	39981672	2	2026-11-29 15:51:55.271844+00	\N
1	95e2faa9-7d56-47f5-bfd2-22a875f97a07	automatic	39981672	2	2026-11-29 15:51:55.271844+00	\N
2	faad871a-1325-4155-85e2-bab523cf938f	replication-support-only	40384328	2	2026-11-29 15:51:55.463914+00	\N
2	95e2faa9-7d56-47f5-bfd2-22a875f97a07	replication-support-only	40384328	2	2026-11-29 15:51:55.463914+00	\N
\.


--
-- Data for Name: MStracer_history; Type: TABLE DATA; Schema: distribution; Owner: postgres
--

COPY distribution."MStracer_history" (parent_tracer_id, agent_id, subscriber_commit) FROM stdin;
1	1	2026-11-29 15:51:55.778781+00
1	2	2026-11-29 15:51:55.83319+00
\.


--
-- Data for Name: MStracer_tokens; Type: TABLE DATA; Schema: distribution; Owner: postgres
--

COPY distribution."MStracer_tokens" (tracer_id, publication_id, posted_at, publisher_commit, distributor_commit) FROM stdin;
1	1	2026-11-29 15:51:55.515919+00	2026-11-29 15:51:55.526175+00	2026-11-29 15:51:55.59341+00
\.


--
-- Data for Name: odd, table; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public."odd, table" (id, "a, b", "per cent %", "größe=") FROM stdin;
1	y	7	groß
\.


--
-- Data for Name: orders; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.orders (id, item, qty) FROM stdin;
2	ink	\N
3	cap	1
1	pen	0
4	on its way	1
\.


--
-- Data for Name: control; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.control (id, kind, content, xid, written_at) FROM stdin;
7	mark		825	2026-11-29 15:51:55.533306+00
8	mark		829	2026-11-29 15:51:55.715837+00
9	mark		837	2026-11-29 15:51:55.920132+00
\.


--
-- Data for Name: dropped_members; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.dropped_members (member_id, feature, name, source_schema, source_name, dropped_at) FROM stdin;
\.


--
-- Data for Name: features; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.features (feature) FROM stdin;
replication
\.


--
-- Data for Name: identities; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.identities (source_table_id, identity, identity_index, captured_table_id) FROM stdin;
16775	d	\N	16775
16782	d	\N	16782
\.


--
-- Data for Name: members; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.members (member_id, feature, name, source_table_id, source_schema, source_name, publication_entry_id) FROM stdin;
control	log	control	16842	rowtide	control	16851
95e2faa9-7d56-47f5-bfd2-22a875f97a07	replication	shop/orders	16775	public	orders	17060
faad871a-1325-4155-85e2-bab523cf938f	replication	shop/odd, table	16782	public	odd, table	17063
03641684-9c58-46f2-937a-e53651f8b6fe	replication	whole/orders	16775	public	orders	17060
\.


--
-- Data for Name: source; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.source (source_id, system_identifier, publication, publication_id, publication_version, slot, log_store, lake, created_at) FROM stdin;
7fb478b5-3fe2-4136-ac07-3b7131c7a39d	7713621732150596111	rowtide_16774	16840	809 10	rowtide_16774	{folder}/publisher/log	{folder}/publisher	2026-11-29 15:51:54.89191+00
\.


--
-- Data for Name: table_publications; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.table_publications (publication, publication_entry_id) FROM stdin;
rowtide_16774_control	16853
rowtide_16774_16775	17062
rowtide_16774_16782	17065
\.


--
-- Name: MSarticle_changes_id_seq; Type: SEQUENCE SET; Schema: distribution; Owner: postgres
--

SELECT pg_catalog.setval('distribution."MSarticle_changes_id_seq"', 1, false);


--
-- Name: MSdistribution_agents_id_seq; Type: SEQUENCE SET; Schema: distribution; Owner: postgres
--

SELECT pg_catalog.setval('distribution."MSdistribution_agents_id_seq"', 2, true);


--
-- Name: MSdistribution_history_id_seq; Type: SEQUENCE SET; Schema: distribution; Owner: postgres
--

SELECT pg_catalog.setval('distribution."MSdistribution_history_id_seq"', 1, false);


--
-- Name: MSpublications_publication_id_seq; Type: SEQUENCE SET; Schema: distribution; Owner: postgres
--

SELECT pg_catalog.setval('distribution."MSpublications_publication_id_seq"', 2, true);


--
-- Name: MSrepl_errors_id_seq; Type: SEQUENCE SET; Schema: distribution; Owner: postgres
--

SELECT pg_catalog.setval('distribution."MSrepl_errors_id_seq"', 1, false);


--
-- Name: MStracer_tokens_tracer_id_seq; Type: SEQUENCE SET; Schema: distribution; Owner: postgres
--

SELECT pg_catalog.setval('distribution."MStracer_tokens_tracer_id_seq"', 1, true);


--
-- Name: control_id_seq; Type: SEQUENCE SET; Schema: rowtide; Owner: postgres
--

SELECT pg_catalog.setval('rowtide.control_id_seq', 9, true);


--
-- Name: identities_source_table_id_seq; Type: SEQUENCE SET; Schema: rowtide; Owner: postgres
--

SELECT pg_catalog.setval('rowtide.identities_source_table_id_seq', 1, false);


--
-- Name: MSarticle_changes MSarticle_changes_pkey; Type: CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSarticle_changes"
    ADD CONSTRAINT "MSarticle_changes_pkey" PRIMARY KEY (id);


--
-- Name: MSarticles MSarticles_del_proc_key; Type: CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSarticles"
    ADD CONSTRAINT "MSarticles_del_proc_key" UNIQUE (del_proc);


--
-- Name: MSarticles MSarticles_ins_proc_key; Type: CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSarticles"
    ADD CONSTRAINT "MSarticles_ins_proc_key" UNIQUE (ins_proc);


--
-- Name: MSarticles MSarticles_pkey; Type: CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSarticles"
    ADD CONSTRAINT "MSarticles_pkey" PRIMARY KEY (article_id);


--
-- Name: MSarticles MSarticles_upd_proc_key; Type: CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSarticles"
    ADD CONSTRAINT "MSarticles_upd_proc_key" UNIQUE (upd_proc);


--
-- Name: MScustom_scripts MScustom_scripts_pkey; Type: CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MScustom_scripts"
    ADD CONSTRAINT "MScustom_scripts_pkey" PRIMARY KEY (article_id, from_seqno);


--
-- Name: MSdetached_articles MSdetached_articles_pkey; Type: CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSdetached_articles"
    ADD CONSTRAINT "MSdetached_articles_pkey" PRIMARY KEY (agent_id, subscription_guid, article_id);


--
-- Name: MSdistribution_agents MSdistribution_agents_pkey; Type: CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSdistribution_agents"
    ADD CONSTRAINT "MSdistribution_agents_pkey" PRIMARY KEY (id);


--
-- Name: MSdistribution_agents MSdistribution_agents_subscription_guid_key; Type: CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSdistribution_agents"
    ADD CONSTRAINT "MSdistribution_agents_subscription_guid_key" UNIQUE (subscription_guid);


--
-- Name: MSdistribution_history MSdistribution_history_pkey; Type: CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSdistribution_history"
    ADD CONSTRAINT "MSdistribution_history_pkey" PRIMARY KEY (id);


--
-- Name: MSdistributiondbs MSdistributiondbs_pkey; Type: CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSdistributiondbs"
    ADD CONSTRAINT "MSdistributiondbs_pkey" PRIMARY KEY (name);


--
-- Name: MSpublications MSpublications_pkey; Type: CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSpublications"
    ADD CONSTRAINT "MSpublications_pkey" PRIMARY KEY (publication_id);


--
-- Name: MSpublications MSpublications_publication_key; Type: CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSpublications"
    ADD CONSTRAINT "MSpublications_publication_key" UNIQUE (publication);


--
-- Name: MSrepairs MSrepairs_pkey; Type: CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSrepairs"
    ADD CONSTRAINT "MSrepairs_pkey" PRIMARY KEY (repair_id, ordinal);


--
-- Name: MSrepl_errors MSrepl_errors_pkey; Type: CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSrepl_errors"
    ADD CONSTRAINT "MSrepl_errors_pkey" PRIMARY KEY (id);


--
-- Name: MSschemaarticles MSschemaarticles_pkey; Type: CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSschemaarticles"
    ADD CONSTRAINT "MSschemaarticles_pkey" PRIMARY KEY (article_id);


--
-- Name: MSsubscriptions MSsubscriptions_pkey; Type: CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSsubscriptions"
    ADD CONSTRAINT "MSsubscriptions_pkey" PRIMARY KEY (agent_id, article_id);


--
-- Name: MStracer_history MStracer_history_pkey; Type: CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MStracer_history"
    ADD CONSTRAINT "MStracer_history_pkey" PRIMARY KEY (parent_tracer_id, agent_id);


--
-- Name: MStracer_tokens MStracer_tokens_pkey; Type: CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MStracer_tokens"
    ADD CONSTRAINT "MStracer_tokens_pkey" PRIMARY KEY (tracer_id);


--
-- Name: odd, table odd, table_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public."odd, table"
    ADD CONSTRAINT "odd, table_pkey" PRIMARY KEY (id);


--
-- Name: orders orders_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_pkey PRIMARY KEY (id);


--
-- Name: control control_pkey; Type: CONSTRAINT; Schema: rowtide; Owner: postgres
--

ALTER TABLE ONLY rowtide.control
    ADD CONSTRAINT control_pkey PRIMARY KEY (id);


--
-- Name: dropped_members dropped_members_pkey; Type: CONSTRAINT; Schema: rowtide; Owner: postgres
--

ALTER TABLE ONLY rowtide.dropped_members
    ADD CONSTRAINT dropped_members_pkey PRIMARY KEY (member_id);


--
-- Name: features features_pkey; Type: CONSTRAINT; Schema: rowtide; Owner: postgres
--

ALTER TABLE ONLY rowtide.features
    ADD CONSTRAINT features_pkey PRIMARY KEY (feature);


--
-- Name: identities identities_pkey; Type: CONSTRAINT; Schema: rowtide; Owner: postgres
--

ALTER TABLE ONLY rowtide.identities
    ADD CONSTRAINT identities_pkey PRIMARY KEY (source_table_id);


--
-- Name: members members_pkey; Type: CONSTRAINT; Schema: rowtide; Owner: postgres
--

ALTER TABLE ONLY rowtide.members
    ADD CONSTRAINT members_pkey PRIMARY KEY (member_id);


--
-- Name: source source_pkey; Type: CONSTRAINT; Schema: rowtide; Owner: postgres
--

ALTER TABLE ONLY rowtide.source
    ADD CONSTRAINT source_pkey PRIMARY KEY (source_id);


--
-- Name: table_publications table_publications_pkey; Type: CONSTRAINT; Schema: rowtide; Owner: postgres
--

ALTER TABLE ONLY rowtide.table_publications
    ADD CONSTRAINT table_publications_pkey PRIMARY KEY (publication);


--
-- Name: ix_distribution_MSdistribution_history_agent_id; Type: INDEX; Schema: distribution; Owner: postgres
--

CREATE INDEX "ix_distribution_MSdistribution_history_agent_id" ON distribution."MSdistribution_history" USING btree (agent_id);


--
-- Name: ix_distribution_MSrepairs_agent_id; Type: INDEX; Schema: distribution; Owner: postgres
--

CREATE INDEX "ix_distribution_MSrepairs_agent_id" ON distribution."MSrepairs" USING btree (agent_id);


--
-- Name: ix_distribution_MSrepl_errors_time; Type: INDEX; Schema: distribution; Owner: postgres
--

CREATE INDEX "ix_distribution_MSrepl_errors_time" ON distribution."MSrepl_errors" USING btree ("time");


--
-- Name: MSarticle_changes MSarticle_changes_agent_id_fkey; Type: FK CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSarticle_changes"
    ADD CONSTRAINT "MSarticle_changes_agent_id_fkey" FOREIGN KEY (agent_id) REFERENCES distribution."MSdistribution_agents"(id) ON DELETE CASCADE;


--
-- Name: MSarticles MSarticles_publication_id_fkey; Type: FK CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSarticles"
    ADD CONSTRAINT "MSarticles_publication_id_fkey" FOREIGN KEY (publication_id) REFERENCES distribution."MSpublications"(publication_id);


--
-- Name: MScustom_scripts MScustom_scripts_article_id_fkey; Type: FK CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MScustom_scripts"
    ADD CONSTRAINT "MScustom_scripts_article_id_fkey" FOREIGN KEY (article_id) REFERENCES distribution."MSarticles"(article_id) ON DELETE CASCADE;


--
-- Name: MSdetached_articles MSdetached_articles_agent_id_fkey; Type: FK CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSdetached_articles"
    ADD CONSTRAINT "MSdetached_articles_agent_id_fkey" FOREIGN KEY (agent_id) REFERENCES distribution."MSdistribution_agents"(id) ON DELETE CASCADE;


--
-- Name: MSdistribution_agents MSdistribution_agents_publication_id_fkey; Type: FK CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSdistribution_agents"
    ADD CONSTRAINT "MSdistribution_agents_publication_id_fkey" FOREIGN KEY (publication_id) REFERENCES distribution."MSpublications"(publication_id);


--
-- Name: MSdistribution_history MSdistribution_history_agent_id_fkey; Type: FK CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSdistribution_history"
    ADD CONSTRAINT "MSdistribution_history_agent_id_fkey" FOREIGN KEY (agent_id) REFERENCES distribution."MSdistribution_agents"(id) ON DELETE CASCADE;


--
-- Name: MSrepairs MSrepairs_agent_id_fkey; Type: FK CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSrepairs"
    ADD CONSTRAINT "MSrepairs_agent_id_fkey" FOREIGN KEY (agent_id) REFERENCES distribution."MSdistribution_agents"(id) ON DELETE CASCADE;


--
-- Name: MSschemaarticles MSschemaarticles_publication_id_fkey; Type: FK CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSschemaarticles"
    ADD CONSTRAINT "MSschemaarticles_publication_id_fkey" FOREIGN KEY (publication_id) REFERENCES distribution."MSpublications"(publication_id) ON DELETE CASCADE;


--
-- Name: MSsubscriptions MSsubscriptions_agent_id_fkey; Type: FK CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSsubscriptions"
    ADD CONSTRAINT "MSsubscriptions_agent_id_fkey" FOREIGN KEY (agent_id) REFERENCES distribution."MSdistribution_agents"(id) ON DELETE CASCADE;


--
-- Name: MSsubscriptions MSsubscriptions_article_id_fkey; Type: FK CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSsubscriptions"
    ADD CONSTRAINT "MSsubscriptions_article_id_fkey" FOREIGN KEY (article_id) REFERENCES distribution."MSarticles"(article_id);


--
-- Name: MStracer_history MStracer_history_agent_id_fkey; Type: FK CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MStracer_history"
    ADD CONSTRAINT "MStracer_history_agent_id_fkey" FOREIGN KEY (agent_id) REFERENCES distribution."MSdistribution_agents"(id) ON DELETE CASCADE;


--
-- Name: MStracer_history MStracer_history_parent_tracer_id_fkey; Type: FK CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MStracer_history"
    ADD CONSTRAINT "MStracer_history_parent_tracer_id_fkey" FOREIGN KEY (parent_tracer_id) REFERENCES distribution."MStracer_tokens"(tracer_id) ON DELETE CASCADE;


--
-- Name: MStracer_tokens MStracer_tokens_publication_id_fkey; Type: FK CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MStracer_tokens"
    ADD CONSTRAINT "MStracer_tokens_publication_id_fkey" FOREIGN KEY (publication_id) REFERENCES distribution."MSpublications"(publication_id) ON DELETE CASCADE;


--
-- Name: rowtide_16774; Type: PUBLICATION; Schema: -; Owner: postgres
--

CREATE PUBLICATION rowtide_16774 WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true);


ALTER PUBLICATION rowtide_16774 OWNER TO postgres;

--
-- Name: rowtide_16774_16775; Type: PUBLICATION; Schema: -; Owner: postgres
--

CREATE PUBLICATION rowtide_16774_16775 WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true);


ALTER PUBLICATION rowtide_16774_16775 OWNER TO postgres;

--
-- Name: rowtide_16774_16782; Type: PUBLICATION; Schema: -; Owner: postgres
--

CREATE PUBLICATION rowtide_16774_16782 WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true);


ALTER PUBLICATION rowtide_16774_16782 OWNER TO postgres;

--
-- Name: rowtide_16774_control; Type: PUBLICATION; Schema: -; Owner: postgres
--

CREATE PUBLICATION rowtide_16774_control WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true);


ALTER PUBLICATION rowtide_16774_control OWNER TO postgres;

--
-- Name: rowtide_16774 odd, table; Type: PUBLICATION TABLE; Schema: public; Owner: postgres
--

ALTER PUBLICATION rowtide_16774 ADD TABLE ONLY public."odd, table";


--
-- Name: rowtide_16774_16782 odd, table; Type: PUBLICATION TABLE; Schema: public; Owner: postgres
--

ALTER PUBLICATION rowtide_16774_16782 ADD TABLE ONLY public."odd, table";


--
-- Name: rowtide_16774 orders; Type: PUBLICATION TABLE; Schema: public; Owner: postgres
--

ALTER PUBLICATION rowtide_16774 ADD TABLE ONLY public.orders;


--
-- Name: rowtide_16774_16775 orders; Type: PUBLICATION TABLE; Schema: public; Owner: postgres
--

ALTER PUBLICATION rowtide_16774_16775 ADD TABLE ONLY public.orders;


--
-- Name: rowtide_16774 control; Type: PUBLICATION TABLE; Schema: rowtide; Owner: postgres
--

ALTER PUBLICATION rowtide_16774 ADD TABLE ONLY rowtide.control;


--
-- Name: rowtide_16774_control control; Type: PUBLICATION TABLE; Schema: rowtide; Owner: postgres
--

ALTER PUBLICATION rowtide_16774_control ADD TABLE ONLY rowtide.control;


--
-- Name: FUNCTION rowtide_announce_ddl(); Type: ACL; Schema: rowtide; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide.rowtide_announce_ddl() FROM PUBLIC;


--
-- Name: FUNCTION rowtide_announce_drop(); Type: ACL; Schema: rowtide; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide.rowtide_announce_drop() FROM PUBLIC;


--
-- Name: FUNCTION rowtide_announce_gone(); Type: ACL; Schema: rowtide; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide.rowtide_announce_gone() FROM PUBLIC;


--
-- Name: FUNCTION rowtide_attach_partitions(); Type: ACL; Schema: rowtide; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide.rowtide_attach_partitions() FROM PUBLIC;


--
-- Name: FUNCTION rowtide_note_rewrite(); Type: ACL; Schema: rowtide; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide.rowtide_note_rewrite() FROM PUBLIC;


--
-- Name: rowtide_announce_ddl; Type: EVENT TRIGGER; Schema: -; Owner: postgres
--

CREATE EVENT TRIGGER rowtide_announce_ddl ON ddl_command_end
         WHEN TAG IN ('ALTER TABLE', 'ALTER SCHEMA', 'ALTER TYPE')
   EXECUTE FUNCTION rowtide.rowtide_announce_ddl();

ALTER EVENT TRIGGER rowtide_announce_ddl ENABLE ALWAYS;


ALTER EVENT TRIGGER rowtide_announce_ddl OWNER TO postgres;

--
-- Name: rowtide_announce_drop; Type: EVENT TRIGGER; Schema: -; Owner: postgres
--

CREATE EVENT TRIGGER rowtide_announce_drop ON sql_drop
   EXECUTE FUNCTION rowtide.rowtide_announce_drop();

ALTER EVENT TRIGGER rowtide_announce_drop ENABLE ALWAYS;


ALTER EVENT TRIGGER rowtide_announce_drop OWNER TO postgres;

--
-- Name: rowtide_announce_gone; Type: EVENT TRIGGER; Schema: -; Owner: postgres
--

CREATE EVENT TRIGGER rowtide_announce_gone ON sql_drop
   EXECUTE FUNCTION rowtide.rowtide_announce_gone();

ALTER EVENT TRIGGER rowtide_announce_gone ENABLE ALWAYS;


ALTER EVENT TRIGGER rowtide_announce_gone OWNER TO postgres;

--
-- Name: rowtide_attach_partitions; Type: EVENT TRIGGER; Schema: -; Owner: postgres
--

CREATE EVENT TRIGGER rowtide_attach_partitions ON ddl_command_end
         WHEN TAG IN ('CREATE TABLE', 'ALTER TABLE')
   EXECUTE FUNCTION rowtide.rowtide_attach_partitions();

ALTER EVENT TRIGGER rowtide_attach_partitions ENABLE ALWAYS;


ALTER EVENT TRIGGER rowtide_attach_partitions OWNER TO postgres;

--
-- Name: rowtide_note_rewrite; Type: EVENT TRIGGER; Schema: -; Owner: postgres
--

CREATE EVENT TRIGGER rowtide_note_rewrite ON table_rewrite
   EXECUTE FUNCTION rowtide.rowtide_note_rewrite();

ALTER EVENT TRIGGER rowtide_note_rewrite ENABLE ALWAYS;


ALTER EVENT TRIGGER rowtide_note_rewrite OWNER TO postgres;

--
-- PostgreSQL database dump complete
--


