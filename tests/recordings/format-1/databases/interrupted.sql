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
-- Name: cdc; Type: SCHEMA; Schema: -; Owner: postgres
--

CREATE SCHEMA cdc;


ALTER SCHEMA cdc OWNER TO postgres;

--
-- Name: rowtide; Type: SCHEMA; Schema: -; Owner: postgres
--

CREATE SCHEMA rowtide;


ALTER SCHEMA rowtide OWNER TO postgres;

--
-- Name: refuse_truncate(); Type: FUNCTION; Schema: cdc; Owner: postgres
--

CREATE FUNCTION cdc.refuse_truncate() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
    raise exception using
        errcode = 'feature_not_supported',
        message = format('RT-4711: table %I.%I is enabled for change data capture and cannot be truncated',
            tg_table_schema, tg_table_name),
        hint = format('Delete its rows, or disable capture instance %s first.', tg_argv[0]);
end $$;


ALTER FUNCTION cdc.refuse_truncate() OWNER TO postgres;

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
-- Name: captured_columns; Type: TABLE; Schema: cdc; Owner: postgres
--

CREATE TABLE cdc.captured_columns (
    object_id bigint NOT NULL,
    column_name text NOT NULL,
    column_id integer NOT NULL,
    column_type text NOT NULL,
    column_ordinal integer NOT NULL,
    is_computed boolean NOT NULL
);


ALTER TABLE cdc.captured_columns OWNER TO postgres;

--
-- Name: cdc_jobs; Type: TABLE; Schema: cdc; Owner: postgres
--

CREATE TABLE cdc.cdc_jobs (
    job_id text NOT NULL,
    job_type text NOT NULL,
    job_name text NOT NULL,
    maxtrans integer,
    maxscans integer,
    continuous boolean,
    pollinginterval bigint,
    retention bigint,
    threshold bigint,
    schedule text,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);


ALTER TABLE cdc.cdc_jobs OWNER TO postgres;

--
-- Name: COLUMN cdc_jobs.maxtrans; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.cdc_jobs.maxtrans IS 'transactions per scan; null: no limit';


--
-- Name: COLUMN cdc_jobs.maxscans; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.cdc_jobs.maxscans IS 'scans per round; null: no limit';


--
-- Name: COLUMN cdc_jobs.pollinginterval; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.cdc_jobs.pollinginterval IS 'seconds between rounds; null: as needed';


--
-- Name: COLUMN cdc_jobs.retention; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.cdc_jobs.retention IS 'minutes';


--
-- Name: COLUMN cdc_jobs.threshold; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.cdc_jobs.threshold IS 'SQL Server''s; rows go with their files';


--
-- Name: COLUMN cdc_jobs.schedule; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.cdc_jobs.schedule IS 'as in a crontab; null: with the agent';


--
-- Name: change_tables; Type: TABLE; Schema: cdc; Owner: postgres
--

CREATE TABLE cdc.change_tables (
    object_id bigint NOT NULL,
    version integer DEFAULT 0 NOT NULL,
    source_object_id bigint NOT NULL,
    capture_instance text NOT NULL,
    start_lsn bigint,
    end_lsn bigint,
    supports_net_changes boolean NOT NULL,
    has_drop_pending boolean DEFAULT false NOT NULL,
    role_name text,
    index_name text,
    create_date timestamp with time zone DEFAULT now() NOT NULL,
    member_id text NOT NULL,
    refuses_truncate boolean NOT NULL,
    before_images text NOT NULL
);


ALTER TABLE cdc.change_tables OWNER TO postgres;

--
-- Name: COLUMN change_tables.start_lsn; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.change_tables.start_lsn IS 'the lake keeps the low endpoint; null here';


--
-- Name: change_tables_object_id_seq; Type: SEQUENCE; Schema: cdc; Owner: postgres
--

ALTER TABLE cdc.change_tables ALTER COLUMN object_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME cdc.change_tables_object_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: cleanup_requests; Type: TABLE; Schema: cdc; Owner: postgres
--

CREATE TABLE cdc.cleanup_requests (
    request_id bigint NOT NULL,
    capture_instance text,
    low_water_mark bigint,
    retention_us bigint NOT NULL,
    is_forced boolean NOT NULL,
    requested_at timestamp with time zone DEFAULT now() NOT NULL,
    requested_by text DEFAULT CURRENT_USER NOT NULL,
    finished_at timestamp with time zone,
    outcome text
);


ALTER TABLE cdc.cleanup_requests OWNER TO postgres;

--
-- Name: COLUMN cleanup_requests.outcome; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.cleanup_requests.outcome IS 'JSON: what was done, or why it was not';


--
-- Name: cleanup_requests_request_id_seq; Type: SEQUENCE; Schema: cdc; Owner: postgres
--

ALTER TABLE cdc.cleanup_requests ALTER COLUMN request_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME cdc.cleanup_requests_request_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: consumer_instances; Type: TABLE; Schema: cdc; Owner: postgres
--

CREATE TABLE cdc.consumer_instances (
    consumer_name text NOT NULL,
    capture_instance text NOT NULL,
    member_id text NOT NULL
);


ALTER TABLE cdc.consumer_instances OWNER TO postgres;

--
-- Name: COLUMN consumer_instances.member_id; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.consumer_instances.member_id IS 'the instance''s member; enabling the table again makes another';


--
-- Name: consumers; Type: TABLE; Schema: cdc; Owner: postgres
--

CREATE TABLE cdc.consumers (
    consumer_name text NOT NULL,
    limit_hours integer NOT NULL,
    role_name text,
    acknowledged_lsn bigint,
    acknowledged_time timestamp with time zone,
    acknowledged_at timestamp with time zone,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);


ALTER TABLE cdc.consumers OWNER TO postgres;

--
-- Name: COLUMN consumers.limit_hours; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.consumers.limit_hours IS 'so long cleanup waits for it';


--
-- Name: COLUMN consumers.role_name; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.consumers.role_name IS 'whose members may acknowledge, besides the owner';


--
-- Name: COLUMN consumers.acknowledged_lsn; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.consumers.acknowledged_lsn IS 'null before the first acknowledgement';


--
-- Name: COLUMN consumers.acknowledged_time; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.consumers.acknowledged_time IS 'what was committed up to then is acknowledged';


--
-- Name: followed_instances; Type: TABLE; Schema: cdc; Owner: postgres
--

CREATE TABLE cdc.followed_instances (
    member_id text NOT NULL
);


ALTER TABLE cdc.followed_instances OWNER TO postgres;

--
-- Name: TABLE followed_instances; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON TABLE cdc.followed_instances IS 'instances that were made for targets that follow columns, and end when others have taken their place';


--
-- Name: index_columns; Type: TABLE; Schema: cdc; Owner: postgres
--

CREATE TABLE cdc.index_columns (
    object_id bigint NOT NULL,
    column_name text NOT NULL,
    index_ordinal integer NOT NULL,
    column_id integer NOT NULL
);


ALTER TABLE cdc.index_columns OWNER TO postgres;

--
-- Name: job_history; Type: TABLE; Schema: cdc; Owner: postgres
--

CREATE TABLE cdc.job_history (
    run_id bigint NOT NULL,
    job_type text NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    ended_at timestamp with time zone,
    outcome text NOT NULL,
    retries integer DEFAULT 0 NOT NULL,
    message text,
    agent text NOT NULL
);


ALTER TABLE cdc.job_history OWNER TO postgres;

--
-- Name: COLUMN job_history.agent; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.job_history.agent IS 'the host and process that ran it';


--
-- Name: job_history_run_id_seq; Type: SEQUENCE; Schema: cdc; Owner: postgres
--

ALTER TABLE cdc.job_history ALTER COLUMN run_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME cdc.job_history_run_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: job_requests; Type: TABLE; Schema: cdc; Owner: postgres
--

CREATE TABLE cdc.job_requests (
    request_id bigint NOT NULL,
    job_type text NOT NULL,
    action text NOT NULL,
    requested_at timestamp with time zone DEFAULT now() NOT NULL,
    requested_by text DEFAULT CURRENT_USER NOT NULL
);


ALTER TABLE cdc.job_requests OWNER TO postgres;

--
-- Name: COLUMN job_requests.action; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.job_requests.action IS 'start or stop';


--
-- Name: job_requests_request_id_seq; Type: SEQUENCE; Schema: cdc; Owner: postgres
--

ALTER TABLE cdc.job_requests ALTER COLUMN request_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME cdc.job_requests_request_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: log_scan_errors; Type: TABLE; Schema: cdc; Owner: postgres
--

CREATE UNLOGGED TABLE cdc.log_scan_errors (
    session_id bigint NOT NULL,
    phase_number integer NOT NULL,
    entry_time timestamp with time zone NOT NULL,
    error_number integer NOT NULL,
    error_severity integer NOT NULL,
    error_state integer NOT NULL,
    error_message text NOT NULL,
    start_lsn bigint,
    begin_lsn bigint,
    sequence_value bigint
);


ALTER TABLE cdc.log_scan_errors OWNER TO postgres;

--
-- Name: log_scan_sessions; Type: TABLE; Schema: cdc; Owner: postgres
--

CREATE UNLOGGED TABLE cdc.log_scan_sessions (
    session_id bigint NOT NULL,
    start_time timestamp with time zone NOT NULL,
    end_time timestamp with time zone NOT NULL,
    duration double precision NOT NULL,
    scan_phase text NOT NULL,
    error_count bigint NOT NULL,
    start_lsn bigint,
    current_lsn bigint,
    end_lsn bigint,
    tran_count bigint NOT NULL,
    last_commit_lsn bigint,
    last_commit_time timestamp with time zone,
    log_record_count bigint NOT NULL,
    schema_change_count bigint NOT NULL,
    command_count bigint NOT NULL,
    first_begin_cdc_lsn bigint,
    last_commit_cdc_lsn bigint,
    last_commit_cdc_time timestamp with time zone,
    latency double precision,
    empty_scan_count bigint NOT NULL,
    failed_sessions_count bigint NOT NULL,
    engine text,
    write_requests bigint,
    read_requests bigint,
    transferred_bytes bigint
);


ALTER TABLE cdc.log_scan_sessions OWNER TO postgres;

--
-- Name: COLUMN log_scan_sessions.session_id; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.log_scan_sessions.session_id IS '0: the sum of all';


--
-- Name: COLUMN log_scan_sessions.write_requests; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.log_scan_sessions.write_requests IS 'PUT and LIST; null: no bucket, or the sum of all';


--
-- Name: mend_requests; Type: TABLE; Schema: cdc; Owner: postgres
--

CREATE TABLE cdc.mend_requests (
    request_id bigint NOT NULL,
    capture_instance text NOT NULL,
    requested_at timestamp with time zone DEFAULT now() NOT NULL,
    requested_by text DEFAULT CURRENT_USER NOT NULL,
    finished_at timestamp with time zone,
    outcome text
);


ALTER TABLE cdc.mend_requests OWNER TO postgres;

--
-- Name: COLUMN mend_requests.outcome; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.mend_requests.outcome IS 'JSON: what was done, or why it was not';


--
-- Name: mend_requests_request_id_seq; Type: SEQUENCE; Schema: cdc; Owner: postgres
--

ALTER TABLE cdc.mend_requests ALTER COLUMN request_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME cdc.mend_requests_request_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: new_tables; Type: TABLE; Schema: cdc; Owner: postgres
--

CREATE TABLE cdc.new_tables (
    note_id bigint NOT NULL,
    source_object_id bigint NOT NULL
);


ALTER TABLE cdc.new_tables OWNER TO postgres;

--
-- Name: TABLE new_tables; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON TABLE cdc.new_tables IS 'of the present transaction alone, which deletes its rows as it commits';


--
-- Name: new_tables_note_id_seq; Type: SEQUENCE; Schema: cdc; Owner: postgres
--

ALTER TABLE cdc.new_tables ALTER COLUMN note_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME cdc.new_tables_note_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: ruled_tables; Type: TABLE; Schema: cdc; Owner: postgres
--

CREATE TABLE cdc.ruled_tables (
    rule_name text NOT NULL,
    source_object_id bigint NOT NULL,
    source_schema text NOT NULL,
    source_table text NOT NULL,
    outcome text NOT NULL,
    reason text,
    considered_at timestamp with time zone DEFAULT now() NOT NULL
);


ALTER TABLE cdc.ruled_tables OWNER TO postgres;

--
-- Name: TABLE ruled_tables; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON TABLE cdc.ruled_tables IS 'tables that a rule has considered: it enables each once';


--
-- Name: COLUMN ruled_tables.outcome; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.ruled_tables.outcome IS 'present: before the rule, or enabled by hand; enabled; failed';


--
-- Name: COLUMN ruled_tables.reason; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.ruled_tables.reason IS 'why it failed';


--
-- Name: snapshots; Type: TABLE; Schema: cdc; Owner: postgres
--

CREATE TABLE cdc.snapshots (
    request_id bigint NOT NULL,
    capture_instance text NOT NULL,
    member_id text NOT NULL,
    condition text,
    state text DEFAULT 'requested'::text NOT NULL,
    is_paused boolean DEFAULT false NOT NULL,
    is_cancelled boolean DEFAULT false NOT NULL,
    rows_per_second integer,
    snapshot bigint,
    chunks bigint DEFAULT '0'::bigint NOT NULL,
    of_chunks bigint,
    copied_rows bigint DEFAULT '0'::bigint NOT NULL,
    estimated_rows bigint,
    copied_bytes bigint DEFAULT '0'::bigint NOT NULL,
    estimated_bytes bigint,
    rows_a_second bigint,
    requested_at timestamp with time zone DEFAULT now() NOT NULL,
    requested_by text DEFAULT CURRENT_USER NOT NULL,
    began_at timestamp with time zone,
    reported_at timestamp with time zone,
    finished_at timestamp with time zone,
    outcome text
);


ALTER TABLE cdc.snapshots OWNER TO postgres;

--
-- Name: COLUMN snapshots.condition; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.snapshots.condition IS 'SQL of the rows that are copied; null: all';


--
-- Name: COLUMN snapshots.rows_per_second; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.snapshots.rows_per_second IS 'null: no limit';


--
-- Name: COLUMN snapshots.snapshot; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.snapshots.snapshot IS 'its number in the lake, once it is planned';


--
-- Name: COLUMN snapshots.chunks; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.snapshots.chunks IS 'copied so far';


--
-- Name: COLUMN snapshots.copied_bytes; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.snapshots.copied_bytes IS 'as the server sent them';


--
-- Name: COLUMN snapshots.estimated_bytes; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.snapshots.estimated_bytes IS 'of the table at the source';


--
-- Name: COLUMN snapshots.rows_a_second; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.snapshots.rows_a_second IS 'as last measured';


--
-- Name: COLUMN snapshots.outcome; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.snapshots.outcome IS 'why it waits, began again, or failed';


--
-- Name: snapshots_request_id_seq; Type: SEQUENCE; Schema: cdc; Owner: postgres
--

ALTER TABLE cdc.snapshots ALTER COLUMN request_id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME cdc.snapshots_request_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: table_rules; Type: TABLE; Schema: cdc; Owner: postgres
--

CREATE TABLE cdc.table_rules (
    rule_name text NOT NULL,
    patterns text[] NOT NULL,
    excluding text[] NOT NULL,
    included_expression text NOT NULL,
    excluded_expression text,
    refuses_truncate boolean NOT NULL,
    before_images text NOT NULL,
    role_name text,
    supports_net_changes boolean,
    copies_rows boolean NOT NULL,
    rows_per_second integer,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);


ALTER TABLE cdc.table_rules OWNER TO postgres;

--
-- Name: TABLE table_rules; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON TABLE cdc.table_rules IS 'new tables that these match are enabled';


--
-- Name: COLUMN table_rules.included_expression; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.table_rules.included_expression IS 'of schema, line break, table: a regular expression';


--
-- Name: COLUMN table_rules.supports_net_changes; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.table_rules.supports_net_changes IS 'null: where there is a key';


--
-- Name: COLUMN table_rules.copies_rows; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.table_rules.copies_rows IS 'whether a snapshot is requested';


--
-- Name: COLUMN table_rules.rows_per_second; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.table_rules.rows_per_second IS 'of the snapshot; null: no limit';


--
-- Name: targets; Type: TABLE; Schema: cdc; Owner: postgres
--

CREATE TABLE cdc.targets (
    target_name text NOT NULL,
    target_id text NOT NULL,
    consumer_name text NOT NULL,
    kind text NOT NULL,
    options text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);


ALTER TABLE cdc.targets OWNER TO postgres;

--
-- Name: COLUMN targets.target_id; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.targets.target_id IS 'under which its tables know what they have';


--
-- Name: COLUMN targets.kind; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.targets.kind IS 'current, history or python:module.Class';


--
-- Name: COLUMN targets.options; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.targets.options IS 'JSON: format, place, columns';


--
-- Name: widened_columns; Type: TABLE; Schema: cdc; Owner: postgres
--

CREATE TABLE cdc.widened_columns (
    member_id text,
    setting text NOT NULL
);


ALTER TABLE cdc.widened_columns OWNER TO postgres;

--
-- Name: TABLE widened_columns; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON TABLE cdc.widened_columns IS 'what is done with tables of the lake whose columns get wider types';


--
-- Name: COLUMN widened_columns.member_id; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.widened_columns.member_id IS 'null: of instances without a setting of their own';


--
-- Name: COLUMN widened_columns.setting; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.widened_columns.setting IS 'auto, rewrite or mark';


--
-- Name: item; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.item (
    id integer NOT NULL,
    name text
);

ALTER TABLE ONLY public.item REPLICA IDENTITY FULL;


ALTER TABLE public.item OWNER TO postgres;

--
-- Name: other; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.other (
    id integer NOT NULL
);

ALTER TABLE ONLY public.other REPLICA IDENTITY FULL;


ALTER TABLE public.other OWNER TO postgres;

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
-- Data for Name: captured_columns; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.captured_columns (object_id, column_name, column_id, column_type, column_ordinal, is_computed) FROM stdin;
1	id	1	integer	1	f
1	name	2	text	2	f
2	id	1	integer	1	f
\.


--
-- Data for Name: cdc_jobs; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.cdc_jobs (job_id, job_type, job_name, maxtrans, maxscans, continuous, pollinginterval, retention, threshold, schedule, created_at) FROM stdin;
bd24995e-88ca-4ca5-9202-ad9bc8e0fc7a	capture	cdc.interrupted_capture	\N	\N	t	\N	\N	\N	\N	2026-11-29 15:52:45.624806+00
f4d35ec9-59df-4513-a283-65d4a1005239	cleanup	cdc.interrupted_cleanup	\N	\N	\N	\N	4320	\N	0 2 * * *	2026-11-29 15:52:45.624806+00
\.


--
-- Data for Name: change_tables; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.change_tables (object_id, version, source_object_id, capture_instance, start_lsn, end_lsn, supports_net_changes, has_drop_pending, role_name, index_name, create_date, member_id, refuses_truncate, before_images) FROM stdin;
1	0	17601	public_item	\N	\N	t	f	\N	item_pkey	2026-11-29 15:52:45.624806+00	ca105121-1b8b-4e53-b2db-2017d1f1d548	f	full
2	0	17608	public_other	\N	\N	t	f	\N	other_pkey	2026-11-29 15:52:45.694628+00	c4a6e510-23e6-4fce-8cb1-04934c50d568	f	full
\.


--
-- Data for Name: cleanup_requests; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.cleanup_requests (request_id, capture_instance, low_water_mark, retention_us, is_forced, requested_at, requested_by, finished_at, outcome) FROM stdin;
\.


--
-- Data for Name: consumer_instances; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.consumer_instances (consumer_name, capture_instance, member_id) FROM stdin;
\.


--
-- Data for Name: consumers; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.consumers (consumer_name, limit_hours, role_name, acknowledged_lsn, acknowledged_time, acknowledged_at, created_at) FROM stdin;
\.


--
-- Data for Name: followed_instances; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.followed_instances (member_id) FROM stdin;
\.


--
-- Data for Name: index_columns; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.index_columns (object_id, column_name, index_ordinal, column_id) FROM stdin;
1	id	1	1
2	id	1	1
\.


--
-- Data for Name: job_history; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.job_history (run_id, job_type, started_at, ended_at, outcome, retries, message, agent) FROM stdin;
\.


--
-- Data for Name: job_requests; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.job_requests (request_id, job_type, action, requested_at, requested_by) FROM stdin;
\.


--
-- Data for Name: log_scan_errors; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.log_scan_errors (session_id, phase_number, entry_time, error_number, error_severity, error_state, error_message, start_lsn, begin_lsn, sequence_value) FROM stdin;
\.


--
-- Data for Name: log_scan_sessions; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.log_scan_sessions (session_id, start_time, end_time, duration, scan_phase, error_count, start_lsn, current_lsn, end_lsn, tran_count, last_commit_lsn, last_commit_time, log_record_count, schema_change_count, command_count, first_begin_cdc_lsn, last_commit_cdc_lsn, last_commit_cdc_time, latency, empty_scan_count, failed_sessions_count, engine, write_requests, read_requests, transferred_bytes) FROM stdin;
\.


--
-- Data for Name: mend_requests; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.mend_requests (request_id, capture_instance, requested_at, requested_by, finished_at, outcome) FROM stdin;
\.


--
-- Data for Name: new_tables; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.new_tables (note_id, source_object_id) FROM stdin;
\.


--
-- Data for Name: ruled_tables; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.ruled_tables (rule_name, source_object_id, source_schema, source_table, outcome, reason, considered_at) FROM stdin;
\.


--
-- Data for Name: snapshots; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.snapshots (request_id, capture_instance, member_id, condition, state, is_paused, is_cancelled, rows_per_second, snapshot, chunks, of_chunks, copied_rows, estimated_rows, copied_bytes, estimated_bytes, rows_a_second, requested_at, requested_by, began_at, reported_at, finished_at, outcome) FROM stdin;
\.


--
-- Data for Name: table_rules; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.table_rules (rule_name, patterns, excluding, included_expression, excluded_expression, refuses_truncate, before_images, role_name, supports_net_changes, copies_rows, rows_per_second, created_at) FROM stdin;
\.


--
-- Data for Name: targets; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.targets (target_name, target_id, consumer_name, kind, options, created_at) FROM stdin;
\.


--
-- Data for Name: widened_columns; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.widened_columns (member_id, setting) FROM stdin;
\.


--
-- Data for Name: item; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.item (id, name) FROM stdin;
2	open
1	open too
100	pending
101	pending
102	pending
103	pending
104	pending
105	pending
106	pending
107	pending
108	pending
109	pending
110	pending
111	pending
112	pending
113	pending
114	pending
115	pending
116	pending
117	pending
118	pending
119	pending
120	pending
121	pending
122	pending
123	pending
124	pending
125	pending
126	pending
127	pending
128	pending
129	pending
130	pending
131	pending
132	pending
133	pending
134	pending
135	pending
136	pending
137	pending
138	pending
139	pending
140	pending
141	pending
142	pending
143	pending
144	pending
145	pending
146	pending
147	pending
148	pending
149	pending
150	pending
151	pending
152	pending
153	pending
154	pending
155	pending
156	pending
157	pending
158	pending
159	pending
160	pending
161	pending
162	pending
163	pending
164	pending
165	pending
166	pending
167	pending
168	pending
169	pending
170	pending
171	pending
172	pending
173	pending
174	pending
175	pending
176	pending
177	pending
178	pending
179	pending
180	pending
181	pending
182	pending
183	pending
184	pending
185	pending
186	pending
187	pending
188	pending
189	pending
190	pending
191	pending
192	pending
193	pending
194	pending
195	pending
196	pending
197	pending
198	pending
199	pending
\.


--
-- Data for Name: other; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.other (id) FROM stdin;
1
\.


--
-- Data for Name: control; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.control (id, kind, content, xid, written_at) FROM stdin;
4	mark		946	2026-11-29 15:52:46.358235+00
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
cdc
\.


--
-- Data for Name: identities; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.identities (source_table_id, identity, identity_index, captured_table_id) FROM stdin;
17601	d	\N	17601
17608	d	\N	17608
\.


--
-- Data for Name: members; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.members (member_id, feature, name, source_table_id, source_schema, source_name, publication_entry_id) FROM stdin;
control	log	control	17666	rowtide	control	17675
ca105121-1b8b-4e53-b2db-2017d1f1d548	cdc	public_item	17601	public	item	17915
c4a6e510-23e6-4fce-8cb1-04934c50d568	cdc	public_other	17608	public	other	17918
\.


--
-- Data for Name: source; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.source (source_id, system_identifier, publication, publication_id, publication_version, slot, log_store, lake, created_at) FROM stdin;
43bdf4db-a00f-43dd-a4e7-adeae9a45c6e	7713621732150596111	rowtide_17600	17664	935 10	rowtide_17600	{folder}/interrupted/log	{folder}/interrupted	2026-11-29 15:52:45.413766+00
\.


--
-- Data for Name: table_publications; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.table_publications (publication, publication_entry_id) FROM stdin;
rowtide_17600_control	17677
rowtide_17600_17601	17917
rowtide_17600_17608	17920
\.


--
-- Name: change_tables_object_id_seq; Type: SEQUENCE SET; Schema: cdc; Owner: postgres
--

SELECT pg_catalog.setval('cdc.change_tables_object_id_seq', 2, true);


--
-- Name: cleanup_requests_request_id_seq; Type: SEQUENCE SET; Schema: cdc; Owner: postgres
--

SELECT pg_catalog.setval('cdc.cleanup_requests_request_id_seq', 1, false);


--
-- Name: job_history_run_id_seq; Type: SEQUENCE SET; Schema: cdc; Owner: postgres
--

SELECT pg_catalog.setval('cdc.job_history_run_id_seq', 1, false);


--
-- Name: job_requests_request_id_seq; Type: SEQUENCE SET; Schema: cdc; Owner: postgres
--

SELECT pg_catalog.setval('cdc.job_requests_request_id_seq', 1, false);


--
-- Name: mend_requests_request_id_seq; Type: SEQUENCE SET; Schema: cdc; Owner: postgres
--

SELECT pg_catalog.setval('cdc.mend_requests_request_id_seq', 1, false);


--
-- Name: new_tables_note_id_seq; Type: SEQUENCE SET; Schema: cdc; Owner: postgres
--

SELECT pg_catalog.setval('cdc.new_tables_note_id_seq', 1, false);


--
-- Name: snapshots_request_id_seq; Type: SEQUENCE SET; Schema: cdc; Owner: postgres
--

SELECT pg_catalog.setval('cdc.snapshots_request_id_seq', 1, false);


--
-- Name: control_id_seq; Type: SEQUENCE SET; Schema: rowtide; Owner: postgres
--

SELECT pg_catalog.setval('rowtide.control_id_seq', 4, true);


--
-- Name: identities_source_table_id_seq; Type: SEQUENCE SET; Schema: rowtide; Owner: postgres
--

SELECT pg_catalog.setval('rowtide.identities_source_table_id_seq', 1, false);


--
-- Name: captured_columns captured_columns_pkey; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.captured_columns
    ADD CONSTRAINT captured_columns_pkey PRIMARY KEY (object_id, column_ordinal);


--
-- Name: cdc_jobs cdc_jobs_job_type_key; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.cdc_jobs
    ADD CONSTRAINT cdc_jobs_job_type_key UNIQUE (job_type);


--
-- Name: cdc_jobs cdc_jobs_pkey; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.cdc_jobs
    ADD CONSTRAINT cdc_jobs_pkey PRIMARY KEY (job_id);


--
-- Name: change_tables change_tables_capture_instance_key; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.change_tables
    ADD CONSTRAINT change_tables_capture_instance_key UNIQUE (capture_instance);


--
-- Name: change_tables change_tables_member_id_key; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.change_tables
    ADD CONSTRAINT change_tables_member_id_key UNIQUE (member_id);


--
-- Name: change_tables change_tables_pkey; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.change_tables
    ADD CONSTRAINT change_tables_pkey PRIMARY KEY (object_id);


--
-- Name: cleanup_requests cleanup_requests_pkey; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.cleanup_requests
    ADD CONSTRAINT cleanup_requests_pkey PRIMARY KEY (request_id);


--
-- Name: consumer_instances consumer_instances_pkey; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.consumer_instances
    ADD CONSTRAINT consumer_instances_pkey PRIMARY KEY (consumer_name, capture_instance);


--
-- Name: consumers consumers_pkey; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.consumers
    ADD CONSTRAINT consumers_pkey PRIMARY KEY (consumer_name);


--
-- Name: followed_instances followed_instances_pkey; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.followed_instances
    ADD CONSTRAINT followed_instances_pkey PRIMARY KEY (member_id);


--
-- Name: index_columns index_columns_pkey; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.index_columns
    ADD CONSTRAINT index_columns_pkey PRIMARY KEY (object_id, index_ordinal);


--
-- Name: job_history job_history_pkey; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.job_history
    ADD CONSTRAINT job_history_pkey PRIMARY KEY (run_id);


--
-- Name: job_requests job_requests_pkey; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.job_requests
    ADD CONSTRAINT job_requests_pkey PRIMARY KEY (request_id);


--
-- Name: log_scan_errors log_scan_errors_pkey; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.log_scan_errors
    ADD CONSTRAINT log_scan_errors_pkey PRIMARY KEY (session_id);


--
-- Name: log_scan_sessions log_scan_sessions_pkey; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.log_scan_sessions
    ADD CONSTRAINT log_scan_sessions_pkey PRIMARY KEY (session_id);


--
-- Name: mend_requests mend_requests_pkey; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.mend_requests
    ADD CONSTRAINT mend_requests_pkey PRIMARY KEY (request_id);


--
-- Name: new_tables new_tables_pkey; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.new_tables
    ADD CONSTRAINT new_tables_pkey PRIMARY KEY (note_id);


--
-- Name: ruled_tables ruled_tables_pkey; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.ruled_tables
    ADD CONSTRAINT ruled_tables_pkey PRIMARY KEY (rule_name, source_object_id);


--
-- Name: snapshots snapshots_pkey; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.snapshots
    ADD CONSTRAINT snapshots_pkey PRIMARY KEY (request_id);


--
-- Name: table_rules table_rules_pkey; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.table_rules
    ADD CONSTRAINT table_rules_pkey PRIMARY KEY (rule_name);


--
-- Name: targets targets_consumer_name_key; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.targets
    ADD CONSTRAINT targets_consumer_name_key UNIQUE (consumer_name);


--
-- Name: targets targets_pkey; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.targets
    ADD CONSTRAINT targets_pkey PRIMARY KEY (target_name);


--
-- Name: targets targets_target_id_key; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.targets
    ADD CONSTRAINT targets_target_id_key UNIQUE (target_id);


--
-- Name: widened_columns widened_columns_member_id_key; Type: CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.widened_columns
    ADD CONSTRAINT widened_columns_member_id_key UNIQUE (member_id);


--
-- Name: item item_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.item
    ADD CONSTRAINT item_pkey PRIMARY KEY (id);


--
-- Name: other other_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.other
    ADD CONSTRAINT other_pkey PRIMARY KEY (id);


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
-- Name: captured_columns captured_columns_object_id_fkey; Type: FK CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.captured_columns
    ADD CONSTRAINT captured_columns_object_id_fkey FOREIGN KEY (object_id) REFERENCES cdc.change_tables(object_id) ON DELETE CASCADE;


--
-- Name: change_tables change_tables_member_id_fkey; Type: FK CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.change_tables
    ADD CONSTRAINT change_tables_member_id_fkey FOREIGN KEY (member_id) REFERENCES rowtide.members(member_id) ON DELETE CASCADE;


--
-- Name: consumer_instances consumer_instances_consumer_name_fkey; Type: FK CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.consumer_instances
    ADD CONSTRAINT consumer_instances_consumer_name_fkey FOREIGN KEY (consumer_name) REFERENCES cdc.consumers(consumer_name) ON DELETE CASCADE;


--
-- Name: followed_instances followed_instances_member_id_fkey; Type: FK CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.followed_instances
    ADD CONSTRAINT followed_instances_member_id_fkey FOREIGN KEY (member_id) REFERENCES rowtide.members(member_id) ON DELETE CASCADE;


--
-- Name: index_columns index_columns_object_id_fkey; Type: FK CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.index_columns
    ADD CONSTRAINT index_columns_object_id_fkey FOREIGN KEY (object_id) REFERENCES cdc.change_tables(object_id) ON DELETE CASCADE;


--
-- Name: ruled_tables ruled_tables_rule_name_fkey; Type: FK CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.ruled_tables
    ADD CONSTRAINT ruled_tables_rule_name_fkey FOREIGN KEY (rule_name) REFERENCES cdc.table_rules(rule_name) ON DELETE CASCADE;


--
-- Name: snapshots snapshots_member_id_fkey; Type: FK CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.snapshots
    ADD CONSTRAINT snapshots_member_id_fkey FOREIGN KEY (member_id) REFERENCES rowtide.members(member_id) ON DELETE CASCADE;


--
-- Name: targets targets_consumer_name_fkey; Type: FK CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.targets
    ADD CONSTRAINT targets_consumer_name_fkey FOREIGN KEY (consumer_name) REFERENCES cdc.consumers(consumer_name);


--
-- Name: widened_columns widened_columns_member_id_fkey; Type: FK CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.widened_columns
    ADD CONSTRAINT widened_columns_member_id_fkey FOREIGN KEY (member_id) REFERENCES rowtide.members(member_id) ON DELETE CASCADE;


--
-- Name: consumers; Type: ROW SECURITY; Schema: cdc; Owner: postgres
--

ALTER TABLE cdc.consumers ENABLE ROW LEVEL SECURITY;

--
-- Name: consumers rowtide_acknowledge; Type: POLICY; Schema: cdc; Owner: postgres
--

CREATE POLICY rowtide_acknowledge ON cdc.consumers FOR UPDATE USING ((EXISTS ( SELECT
   FROM pg_roles r
  WHERE ((r.rolname = consumers.role_name) AND pg_has_role(r.oid, 'member'::text)))));


--
-- Name: consumers rowtide_read; Type: POLICY; Schema: cdc; Owner: postgres
--

CREATE POLICY rowtide_read ON cdc.consumers FOR SELECT USING (true);


--
-- Name: rowtide_17600; Type: PUBLICATION; Schema: -; Owner: postgres
--

CREATE PUBLICATION rowtide_17600 WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true);


ALTER PUBLICATION rowtide_17600 OWNER TO postgres;

--
-- Name: rowtide_17600_17601; Type: PUBLICATION; Schema: -; Owner: postgres
--

CREATE PUBLICATION rowtide_17600_17601 WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true);


ALTER PUBLICATION rowtide_17600_17601 OWNER TO postgres;

--
-- Name: rowtide_17600_17608; Type: PUBLICATION; Schema: -; Owner: postgres
--

CREATE PUBLICATION rowtide_17600_17608 WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true);


ALTER PUBLICATION rowtide_17600_17608 OWNER TO postgres;

--
-- Name: rowtide_17600_control; Type: PUBLICATION; Schema: -; Owner: postgres
--

CREATE PUBLICATION rowtide_17600_control WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true);


ALTER PUBLICATION rowtide_17600_control OWNER TO postgres;

--
-- Name: rowtide_17600 item; Type: PUBLICATION TABLE; Schema: public; Owner: postgres
--

ALTER PUBLICATION rowtide_17600 ADD TABLE ONLY public.item;


--
-- Name: rowtide_17600_17601 item; Type: PUBLICATION TABLE; Schema: public; Owner: postgres
--

ALTER PUBLICATION rowtide_17600_17601 ADD TABLE ONLY public.item;


--
-- Name: rowtide_17600 other; Type: PUBLICATION TABLE; Schema: public; Owner: postgres
--

ALTER PUBLICATION rowtide_17600 ADD TABLE ONLY public.other;


--
-- Name: rowtide_17600_17608 other; Type: PUBLICATION TABLE; Schema: public; Owner: postgres
--

ALTER PUBLICATION rowtide_17600_17608 ADD TABLE ONLY public.other;


--
-- Name: rowtide_17600 control; Type: PUBLICATION TABLE; Schema: rowtide; Owner: postgres
--

ALTER PUBLICATION rowtide_17600 ADD TABLE ONLY rowtide.control;


--
-- Name: rowtide_17600_control control; Type: PUBLICATION TABLE; Schema: rowtide; Owner: postgres
--

ALTER PUBLICATION rowtide_17600_control ADD TABLE ONLY rowtide.control;


--
-- Name: SCHEMA cdc; Type: ACL; Schema: -; Owner: postgres
--

GRANT USAGE ON SCHEMA cdc TO PUBLIC;


--
-- Name: SCHEMA rowtide; Type: ACL; Schema: -; Owner: postgres
--

GRANT USAGE ON SCHEMA rowtide TO PUBLIC;


--
-- Name: FUNCTION refuse_truncate(); Type: ACL; Schema: cdc; Owner: postgres
--

REVOKE ALL ON FUNCTION cdc.refuse_truncate() FROM PUBLIC;


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
-- Name: TABLE captured_columns; Type: ACL; Schema: cdc; Owner: postgres
--

GRANT SELECT ON TABLE cdc.captured_columns TO PUBLIC;


--
-- Name: TABLE change_tables; Type: ACL; Schema: cdc; Owner: postgres
--

GRANT SELECT ON TABLE cdc.change_tables TO PUBLIC;


--
-- Name: TABLE consumer_instances; Type: ACL; Schema: cdc; Owner: postgres
--

GRANT SELECT ON TABLE cdc.consumer_instances TO PUBLIC;


--
-- Name: TABLE consumers; Type: ACL; Schema: cdc; Owner: postgres
--

GRANT SELECT ON TABLE cdc.consumers TO PUBLIC;


--
-- Name: COLUMN consumers.acknowledged_lsn; Type: ACL; Schema: cdc; Owner: postgres
--

GRANT UPDATE(acknowledged_lsn) ON TABLE cdc.consumers TO PUBLIC;


--
-- Name: COLUMN consumers.acknowledged_time; Type: ACL; Schema: cdc; Owner: postgres
--

GRANT UPDATE(acknowledged_time) ON TABLE cdc.consumers TO PUBLIC;


--
-- Name: COLUMN consumers.acknowledged_at; Type: ACL; Schema: cdc; Owner: postgres
--

GRANT UPDATE(acknowledged_at) ON TABLE cdc.consumers TO PUBLIC;


--
-- Name: TABLE index_columns; Type: ACL; Schema: cdc; Owner: postgres
--

GRANT SELECT ON TABLE cdc.index_columns TO PUBLIC;


--
-- Name: TABLE new_tables; Type: ACL; Schema: cdc; Owner: postgres
--

GRANT SELECT ON TABLE cdc.new_tables TO PUBLIC;


--
-- Name: TABLE ruled_tables; Type: ACL; Schema: cdc; Owner: postgres
--

GRANT SELECT ON TABLE cdc.ruled_tables TO PUBLIC;


--
-- Name: TABLE table_rules; Type: ACL; Schema: cdc; Owner: postgres
--

GRANT SELECT ON TABLE cdc.table_rules TO PUBLIC;


--
-- Name: TABLE targets; Type: ACL; Schema: cdc; Owner: postgres
--

GRANT SELECT ON TABLE cdc.targets TO PUBLIC;


--
-- Name: TABLE members; Type: ACL; Schema: rowtide; Owner: postgres
--

GRANT SELECT ON TABLE rowtide.members TO PUBLIC;


--
-- Name: TABLE source; Type: ACL; Schema: rowtide; Owner: postgres
--

GRANT SELECT ON TABLE rowtide.source TO PUBLIC;


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


