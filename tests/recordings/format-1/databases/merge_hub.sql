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
-- Name: rowtide_merge; Type: SCHEMA; Schema: -; Owner: postgres
--

CREATE SCHEMA rowtide_merge;


ALTER SCHEMA rowtide_merge OWNER TO postgres;

--
-- Name: SCHEMA rowtide_merge; Type: COMMENT; Schema: -; Owner: postgres
--

COMMENT ON SCHEMA rowtide_merge IS 'rowtide merge 8749f9c54a5bdbb6';


--
-- Name: MSmerge_again_460270081(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_again_460270081"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$declare was uuid; begin if pg_typeof(new.rowguid) <> 2950 then return new; end if; begin select l.rowguid into was from "rowtide_merge"."MSmerge_log" l where l.kind = 3 and l.stamp = (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint and l.key = array[case when new."id" is distinct from null then pg_catalog.format('%s', new."id") end]::pg_catalog.text[]::pg_catalog.text and l.tablenick = 460270081 limit 1; exception when undefined_column then null; end; if was is not null then new.rowguid := was; end if; return new; end$$;


ALTER FUNCTION rowtide_merge."MSmerge_again_460270081"() OWNER TO postgres;

--
-- Name: MSmerge_again_647636972(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_again_647636972"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$declare was uuid; begin if pg_typeof(new.rowguid) <> 2950 then return new; end if; begin select l.rowguid into was from "rowtide_merge"."MSmerge_log" l where l.kind = 3 and l.stamp = (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint and l.key = array[case when new."id" is distinct from null then pg_catalog.format('%s', new."id") end]::pg_catalog.text[]::pg_catalog.text and l.tablenick = 647636972 limit 1; exception when undefined_column then null; end; if was is not null then new.rowguid := was; end if; return new; end$$;


ALTER FUNCTION rowtide_merge."MSmerge_again_647636972"() OWNER TO postgres;

--
-- Name: MSmerge_del_460270081(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_del_460270081"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$declare is_altered boolean := false; begin begin perform n."id" from old_rows n limit 0; exception when undefined_column then is_altered := true; end; if is_altered then insert into "rowtide_merge"."MSmerge_log" (tablenick, rowguid, kind, stamp) select 460270081, case when pg_typeof(n.rowguid) = 2950 then n.rowguid::uuid else format('%s', n.rowguid)::uuid end, 3, (select (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint) from old_rows n; else insert into "rowtide_merge"."MSmerge_log" (tablenick, rowguid, kind, stamp, key) select 460270081, case when pg_typeof(n.rowguid) = 2950 then n.rowguid::uuid else format('%s', n.rowguid)::uuid end, 3, (select (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint), array[case when n."id" is distinct from null then pg_catalog.format('%s', n."id") end]::pg_catalog.text[]::pg_catalog.text from old_rows n; if found then perform pg_catalog.set_config('rowtide.deleted_460270081', 'on', true); end if; end if; return null; end$$;


ALTER FUNCTION rowtide_merge."MSmerge_del_460270081"() OWNER TO postgres;

--
-- Name: MSmerge_del_647636972(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_del_647636972"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$declare is_altered boolean := false; begin begin perform n."id" from old_rows n limit 0; exception when undefined_column then is_altered := true; end; if is_altered then insert into "rowtide_merge"."MSmerge_log" (tablenick, rowguid, kind, stamp) select 647636972, case when pg_typeof(n.rowguid) = 2950 then n.rowguid::uuid else format('%s', n.rowguid)::uuid end, 3, (select (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint) from old_rows n; else insert into "rowtide_merge"."MSmerge_log" (tablenick, rowguid, kind, stamp, key) select 647636972, case when pg_typeof(n.rowguid) = 2950 then n.rowguid::uuid else format('%s', n.rowguid)::uuid end, 3, (select (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint), array[case when n."id" is distinct from null then pg_catalog.format('%s', n."id") end]::pg_catalog.text[]::pg_catalog.text from old_rows n; if found then perform pg_catalog.set_config('rowtide.deleted_647636972', 'on', true); end if; end if; return null; end$$;


ALTER FUNCTION rowtide_merge."MSmerge_del_647636972"() OWNER TO postgres;

--
-- Name: MSmerge_ins_460270081(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_ins_460270081"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$begin insert into "rowtide_merge"."MSmerge_log" (tablenick, rowguid, kind, stamp) select 460270081, case when pg_typeof(n.rowguid) = 2950 then n.rowguid::uuid else format('%s', n.rowguid)::uuid end, 1, (select (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint) from new_rows n; return null; end$$;


ALTER FUNCTION rowtide_merge."MSmerge_ins_460270081"() OWNER TO postgres;

--
-- Name: MSmerge_ins_647636972(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_ins_647636972"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$begin insert into "rowtide_merge"."MSmerge_log" (tablenick, rowguid, kind, stamp) select 647636972, case when pg_typeof(n.rowguid) = 2950 then n.rowguid::uuid else format('%s', n.rowguid)::uuid end, 1, (select (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint) from new_rows n; return null; end$$;


ALTER FUNCTION rowtide_merge."MSmerge_ins_647636972"() OWNER TO postgres;

--
-- Name: MSmerge_rowguid_460270081(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_rowguid_460270081"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$begin raise exception 'the column rowguid of a merged table stays as it is'; end$$;


ALTER FUNCTION rowtide_merge."MSmerge_rowguid_460270081"() OWNER TO postgres;

--
-- Name: MSmerge_rowguid_647636972(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_rowguid_647636972"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$begin raise exception 'the column rowguid of a merged table stays as it is'; end$$;


ALTER FUNCTION rowtide_merge."MSmerge_rowguid_647636972"() OWNER TO postgres;

--
-- Name: MSmerge_trunc_460270081(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_trunc_460270081"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET row_security TO 'off'
    AS $_$begin if exists (
select author.rolname::text as author,
       coalesce(p.oid::regprocedure::text, o.oid::regoperator::text, format_type(t.oid, null)) as what
from pg_class planned_table
join pg_roles owner
    on owner.oid = planned_table.relowner and owner.rolname <> current_user and not owner.rolsuper
cross join lateral (
    select 'pg_class'::regclass::oid as classid, held.oid as objid
    from (select planned_table.oid union select relid from pg_partition_tree(planned_table.oid)) held (oid)
    union all
    select more.classid, more.objid
    from (select planned_table.oid union select relid from pg_partition_tree(planned_table.oid)) held (oid)
    cross join lateral (
        select 'pg_class'::regclass::oid, i.indexrelid from pg_index i where i.indrelid = held.oid
        union all select 'pg_constraint'::regclass, k.oid from pg_constraint k
            where k.conrelid = held.oid and k.contype = 'c'
        union all select 'pg_statistic_ext'::regclass, s.oid from pg_statistic_ext s where s.stxrelid = held.oid
    ) more (classid, objid)
) planned
join pg_depend d on d.classid = planned.classid and d.objid = planned.objid and d.objsubid = 0
left join pg_proc p on d.refclassid = 'pg_proc'::regclass and p.oid = d.refobjid
left join pg_operator o on d.refclassid = 'pg_operator'::regclass and o.oid = d.refobjid
left join pg_type t on d.refclassid = 'pg_type'::regclass and t.oid = d.refobjid and t.typtype = 'd'
join pg_roles author on author.oid = coalesce(p.proowner, o.oprowner, t.typowner)
where planned_table.oid = tg_relid and not author.rolsuper and author.rolname <> current_user
) then raise exception using message = 'RT-8153: public.hidden is not truncated: to read it for merge, the planner would run functions of its owner with other rights. Delete its rows instead'; end if; execute format('insert into "rowtide_merge"."MSmerge_log" (tablenick, rowguid, kind, stamp) select 460270081, case when pg_typeof(n.rowguid) = 2950 then n.rowguid::uuid else format(''%%s'', n.rowguid)::uuid end, 3, (select (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint) from %1$s n', tg_relid::regclass); return null; end$_$;


ALTER FUNCTION rowtide_merge."MSmerge_trunc_460270081"() OWNER TO postgres;

--
-- Name: MSmerge_trunc_647636972(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_trunc_647636972"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET row_security TO 'off'
    AS $_$begin if exists (
select author.rolname::text as author,
       coalesce(p.oid::regprocedure::text, o.oid::regoperator::text, format_type(t.oid, null)) as what
from pg_class planned_table
join pg_roles owner
    on owner.oid = planned_table.relowner and owner.rolname <> current_user and not owner.rolsuper
cross join lateral (
    select 'pg_class'::regclass::oid as classid, held.oid as objid
    from (select planned_table.oid union select relid from pg_partition_tree(planned_table.oid)) held (oid)
    union all
    select more.classid, more.objid
    from (select planned_table.oid union select relid from pg_partition_tree(planned_table.oid)) held (oid)
    cross join lateral (
        select 'pg_class'::regclass::oid, i.indexrelid from pg_index i where i.indrelid = held.oid
        union all select 'pg_constraint'::regclass, k.oid from pg_constraint k
            where k.conrelid = held.oid and k.contype = 'c'
        union all select 'pg_statistic_ext'::regclass, s.oid from pg_statistic_ext s where s.stxrelid = held.oid
    ) more (classid, objid)
) planned
join pg_depend d on d.classid = planned.classid and d.objid = planned.objid and d.objsubid = 0
left join pg_proc p on d.refclassid = 'pg_proc'::regclass and p.oid = d.refobjid
left join pg_operator o on d.refclassid = 'pg_operator'::regclass and o.oid = d.refobjid
left join pg_type t on d.refclassid = 'pg_type'::regclass and t.oid = d.refobjid and t.typtype = 'd'
join pg_roles author on author.oid = coalesce(p.proowner, o.oprowner, t.typowner)
where planned_table.oid = tg_relid and not author.rolsuper and author.rolname <> current_user
) then raise exception using message = 'RT-8153: public.orders is not truncated: to read it for merge, the planner would run functions of its owner with other rights. Delete its rows instead'; end if; execute format('insert into "rowtide_merge"."MSmerge_log" (tablenick, rowguid, kind, stamp) select 647636972, case when pg_typeof(n.rowguid) = 2950 then n.rowguid::uuid else format(''%%s'', n.rowguid)::uuid end, 3, (select (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint) from %1$s n', tg_relid::regclass); return null; end$_$;


ALTER FUNCTION rowtide_merge."MSmerge_trunc_647636972"() OWNER TO postgres;

--
-- Name: MSmerge_upd_460270081(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_upd_460270081"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$begin insert into "rowtide_merge"."MSmerge_log" (tablenick, rowguid, kind, stamp) select 460270081, case when pg_typeof(n.rowguid) = 2950 then n.rowguid::uuid else format('%s', n.rowguid)::uuid end, 2, (select (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint) from new_rows n; return null; end$$;


ALTER FUNCTION rowtide_merge."MSmerge_upd_460270081"() OWNER TO postgres;

--
-- Name: MSmerge_upd_647636972(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_upd_647636972"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$declare is_altered boolean := false; begin begin perform o."id", o."item", o."qty" from old_rows o limit 0; exception when undefined_column then is_altered := true; end; if is_altered then insert into "rowtide_merge"."MSmerge_log" (tablenick, rowguid, kind, stamp, columns) select 647636972, case when pg_typeof(n.rowguid) = 2950 then n.rowguid::uuid else format('%s', n.rowguid)::uuid end, 2, (select (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint), array[true, true, true] from new_rows n; else insert into "rowtide_merge"."MSmerge_log" (tablenick, rowguid, kind, stamp, columns) select 647636972, case when pg_typeof(n.rowguid) = 2950 then n.rowguid::uuid else format('%s', n.rowguid)::uuid end, 2, (select (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint), array[row(o."id")::record operator(pg_catalog.*<>) row(n."id")::record, row(o."item")::record operator(pg_catalog.*<>) row(n."item")::record, row(o."qty")::record operator(pg_catalog.*<>) row(n."qty")::record] from new_rows n join old_rows o on o.rowguid = n.rowguid; end if; return null; end$$;


ALTER FUNCTION rowtide_merge."MSmerge_upd_647636972"() OWNER TO postgres;

--
-- Name: partition_members(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge.partition_members() RETURNS TABLE(pubid text, partition_id integer, tablenick integer, rowguid uuid, parent uuid, is_in integer, is_held integer, is_changed integer)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$#variable_conflict use_column
declare g record; begin for g in select * from "rowtide_merge"."MSmerge_stored_partition_groups" where pubid = '7f98fad4-2922-4c7a-99db-d1d4e02fd9e1' loop return query execute replace(replace(replace(replace('select rowtide_pubid as pubid, rowtide_partition as partition_id, 460270081 as tablenick, k.rowguid, k.parent, case when exists (select 1 from "public"."hidden" as "hidden" where "hidden".rowguid = rowtide_row.rowguid and (("hidden"."region" = ''north''))) then 1 else 0 end as is_in, k.is_held, k.is_changed from (select rowguid, cast(max(cast(parent as text)) as uuid) as parent, max(is_held) as is_held, max(is_changed) as is_changed from (select c.rowguid, null as parent, 0 as is_held, 1 as is_changed from "rowtide_merge"."MSmerge_contents" c where c.tablenick = 460270081 union all select m.rowguid, m.parent, 1, 0 from "rowtide_merge"."MSmerge_stored_partition_mappings" m join "rowtide_merge"."sysmerge_stored_subscriptions" s on s.replnickname = m.replnickname and s.partition_id = rowtide_partition where m.tablenick = 460270081 and m.generation >= 0) l group by rowguid) k left join "public"."hidden" rowtide_row on rowtide_row.rowguid = k.rowguid', 'rowtide_pubid', quote_literal(g.pubid)), 'rowtide_partition', g.partition_id::text), '''rowtide host_name()''', quote_literal(coalesce(g."HOST_NAME_FN", ''))), '''rowtide suser_name()''', quote_literal(coalesce(g."SUSER_NAME_FN", ''))); end loop; end$$;


ALTER FUNCTION rowtide_merge.partition_members() OWNER TO postgres;

--
-- Name: pending_changes(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge.pending_changes() RETURNS TABLE(tablenick integer, rowguid uuid, is_live integer, stamp bigint)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$declare article record; place regclass; begin for article in select distinct a.nickname, a.definition::json ->> 'schema' as owner, a.definition::json ->> 'table' as name from "rowtide_merge"."sysmerge_stored_articles" a where exists (select from "rowtide_merge"."MSmerge_log" l where l.tablenick = a.nickname) loop place := case when article.owner = '' then (select r.oid::regclass from pg_class r where r.relname = article.name and exists (select from pg_trigger t where t.tgrelid = r.oid and left(t.tgname, 8) = 'MSmerge_') order by r.oid limit 1) else to_regclass(concat(quote_ident(article.owner), '.', quote_ident(article.name))) end; continue when place is null; return query execute format('select l.tablenick, l.rowguid, case when exists (select from %s t where t.rowguid = l.rowguid) then 1 else 0 end, max(l.stamp) from "rowtide_merge"."MSmerge_log" l where l.tablenick = %s group by l.tablenick, l.rowguid', place, article.nickname); end loop; end$$;


ALTER FUNCTION rowtide_merge.pending_changes() OWNER TO postgres;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: hidden; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.hidden (
    id integer NOT NULL,
    region character varying(10),
    rowguid uuid DEFAULT ((('0'::text || to_hex((((((date_part('epoch'::text, clock_timestamp()) * (1000)::double precision))::bigint << 16) | (28672)::bigint) | ((random() * (4095)::double precision))::bigint))) || to_hex((((random() * ('1152921504606846975'::bigint)::double precision))::bigint | '-9223372036854775808'::bigint))))::uuid NOT NULL
);


ALTER TABLE public.hidden OWNER TO postgres;

--
-- Name: COLUMN hidden.rowguid; Type: COMMENT; Schema: public; Owner: postgres
--

COMMENT ON COLUMN public.hidden.rowguid IS 'rowtide merge replication';


--
-- Name: orders; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.orders (
    id integer NOT NULL,
    item character varying(20),
    qty integer,
    rowguid uuid DEFAULT ((('0'::text || to_hex((((((date_part('epoch'::text, clock_timestamp()) * (1000)::double precision))::bigint << 16) | (28672)::bigint) | ((random() * (4095)::double precision))::bigint))) || to_hex((((random() * ('1152921504606846975'::bigint)::double precision))::bigint | '-9223372036854775808'::bigint))))::uuid NOT NULL
);


ALTER TABLE public.orders OWNER TO postgres;

--
-- Name: COLUMN orders.rowguid; Type: COMMENT; Schema: public; Owner: postgres
--

COMMENT ON COLUMN public.orders.rowguid IS 'rowtide merge replication';


--
-- Name: MSmerge_articlehistory; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge."MSmerge_articlehistory" (
    session_id integer NOT NULL,
    article text NOT NULL,
    phase integer NOT NULL,
    inserts integer NOT NULL,
    updates integer NOT NULL,
    deletes integer NOT NULL,
    conflicts integer NOT NULL,
    rows_retried integer NOT NULL,
    duration double precision NOT NULL
);


ALTER TABLE rowtide_merge."MSmerge_articlehistory" OWNER TO postgres;

--
-- Name: COLUMN "MSmerge_articlehistory".phase; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_articlehistory".phase IS '1 upload, 2 download';


--
-- Name: MSmerge_conflicts_info; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge."MSmerge_conflicts_info" (
    conflict_id text NOT NULL,
    pubid text NOT NULL,
    article text NOT NULL,
    tablenick integer NOT NULL,
    rowguid text NOT NULL,
    conflict_type integer NOT NULL,
    origin_datasource text NOT NULL,
    origin_datasource_id bigint NOT NULL,
    reason_code text NOT NULL,
    reason_text text NOT NULL,
    losing_row text,
    winning_row text,
    losing_lineage bytea NOT NULL,
    parents text,
    losing_columns text,
    settled_row text,
    replaced_row text,
    resolved_with text,
    "MSrepl_create_time" timestamp with time zone DEFAULT now() NOT NULL,
    resolved_time timestamp with time zone
);


ALTER TABLE rowtide_merge."MSmerge_conflicts_info" OWNER TO postgres;

--
-- Name: COLUMN "MSmerge_conflicts_info".conflict_id; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_conflicts_info".conflict_id IS 'of the row and both its versions: a repeat is known';


--
-- Name: COLUMN "MSmerge_conflicts_info".origin_datasource; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_conflicts_info".origin_datasource IS 'where the losing change was made';


--
-- Name: COLUMN "MSmerge_conflicts_info".origin_datasource_id; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_conflicts_info".origin_datasource_id IS 'that node''s nickname';


--
-- Name: COLUMN "MSmerge_conflicts_info".losing_row; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_conflicts_info".losing_row IS 'JSON: its columns and their values as texts; null for a delete';


--
-- Name: COLUMN "MSmerge_conflicts_info".winning_row; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_conflicts_info".winning_row IS 'in the same way';


--
-- Name: COLUMN "MSmerge_conflicts_info".losing_lineage; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_conflicts_info".losing_lineage IS 'what the losing version includes';


--
-- Name: COLUMN "MSmerge_conflicts_info".parents; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_conflicts_info".parents IS 'JSON: the rowguids of the rows that it references, by foreign key';


--
-- Name: COLUMN "MSmerge_conflicts_info".losing_columns; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_conflicts_info".losing_columns IS 'JSON: names of those that the losing version changed; null: the whole row';


--
-- Name: COLUMN "MSmerge_conflicts_info".settled_row; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_conflicts_info".settled_row IS 'as losing_row: as it was left, JSON null: gone; null: as the winning row';


--
-- Name: COLUMN "MSmerge_conflicts_info".replaced_row; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_conflicts_info".replaced_row IS 'in the same way: what gave way to the losing row when somebody chose that';


--
-- Name: COLUMN "MSmerge_conflicts_info".resolved_with; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_conflicts_info".resolved_with IS 'the conflict_id of the parent that was resolved';


--
-- Name: COLUMN "MSmerge_conflicts_info".resolved_time; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_conflicts_info".resolved_time IS 'when somebody changed the resolution';


--
-- Name: MSmerge_replinfo; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge."MSmerge_replinfo" (
    nickname bigint NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    place text,
    purgedgen bigint DEFAULT '0'::bigint NOT NULL,
    metadatacleanuptime timestamp with time zone DEFAULT now() NOT NULL
);


ALTER TABLE rowtide_merge."MSmerge_replinfo" OWNER TO postgres;

--
-- Name: COLUMN "MSmerge_replinfo".nickname; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_replinfo".nickname IS 'this node''s own';


--
-- Name: COLUMN "MSmerge_replinfo".place; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_replinfo".place IS 'server and database where this is the original; null: not known';


--
-- Name: COLUMN "MSmerge_replinfo".purgedgen; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_replinfo".purgedgen IS 'metadata up to it are gone';


--
-- Name: MSmerge_stored_contents; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge."MSmerge_stored_contents" (
    tablenick integer NOT NULL,
    rowguid uuid NOT NULL,
    stamp bigint NOT NULL,
    origin bigint,
    priority double precision,
    lineage bytea,
    last bytea,
    colv bytea,
    own_columns bigint[],
    bases text
);


ALTER TABLE rowtide_merge."MSmerge_stored_contents" OWNER TO postgres;

--
-- Name: MSmerge_stored_genhistory; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge."MSmerge_stored_genhistory" (
    nickname bigint NOT NULL,
    generation bigint NOT NULL,
    guidsrc text NOT NULL,
    genstatus integer NOT NULL,
    snapshot text,
    coldate timestamp with time zone DEFAULT now() NOT NULL
);


ALTER TABLE rowtide_merge."MSmerge_stored_genhistory" OWNER TO postgres;

--
-- Name: COLUMN "MSmerge_stored_genhistory".nickname; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_stored_genhistory".nickname IS 'of the node whose generation it is';


--
-- Name: COLUMN "MSmerge_stored_genhistory".genstatus; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_stored_genhistory".genstatus IS '1 closed here, 2 received';


--
-- Name: COLUMN "MSmerge_stored_genhistory".snapshot; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_stored_genhistory".snapshot IS 'what a PostgreSQL node sees of its own transactions in it';


--
-- Name: MSmerge_contents; Type: VIEW; Schema: rowtide_merge; Owner: postgres
--

CREATE VIEW rowtide_merge."MSmerge_contents" AS
 WITH pending AS (
         SELECT pending_changes.tablenick,
            pending_changes.rowguid,
            pending_changes.is_live,
            pending_changes.stamp
           FROM rowtide_merge.pending_changes() pending_changes(tablenick, rowguid, is_live, stamp)
        )
 SELECT c.tablenick,
    c.rowguid,
    COALESCE(g.number, ( SELECT (COALESCE(max(h.generation), (0)::bigint) + 1)
           FROM rowtide_merge."MSmerge_stored_genhistory" h
          WHERE ((h.snapshot IS NOT NULL) AND (h.nickname = ( SELECT "MSmerge_replinfo".nickname
                   FROM rowtide_merge."MSmerge_replinfo"))))) AS generation,
    COALESCE(g.number, ( SELECT (COALESCE(max(h.generation), (0)::bigint) + 1)
           FROM rowtide_merge."MSmerge_stored_genhistory" h
          WHERE ((h.snapshot IS NOT NULL) AND (h.nickname = ( SELECT "MSmerge_replinfo".nickname
                   FROM rowtide_merge."MSmerge_replinfo"))))) AS partchangegen,
    c.lineage,
    c.colv AS colvl,
    NULL::text AS marker,
    NULL::text AS logical_record_parent_rowguid,
    NULL::text AS logical_record_lineage,
    NULL::text AS logical_relation_change_gen
   FROM (rowtide_merge."MSmerge_stored_contents" c
     LEFT JOIN LATERAL ( SELECT min(h.generation) AS number
           FROM rowtide_merge."MSmerge_stored_genhistory" h
          WHERE ((h.snapshot IS NOT NULL) AND (h.nickname = ( SELECT "MSmerge_replinfo".nickname
                   FROM rowtide_merge."MSmerge_replinfo")) AND pg_visible_in_snapshot(((c.stamp)::text)::xid8, (h.snapshot)::pg_snapshot))) g ON (true))
  WHERE (NOT (EXISTS ( SELECT 1
           FROM pending o
          WHERE ((o.tablenick = c.tablenick) AND (o.rowguid = c.rowguid)))))
UNION ALL
 SELECT p.tablenick,
    p.rowguid,
    COALESCE(g.number, ( SELECT (COALESCE(max(h.generation), (0)::bigint) + 1)
           FROM rowtide_merge."MSmerge_stored_genhistory" h
          WHERE ((h.snapshot IS NOT NULL) AND (h.nickname = ( SELECT "MSmerge_replinfo".nickname
                   FROM rowtide_merge."MSmerge_replinfo"))))) AS generation,
    COALESCE(g.number, ( SELECT (COALESCE(max(h.generation), (0)::bigint) + 1)
           FROM rowtide_merge."MSmerge_stored_genhistory" h
          WHERE ((h.snapshot IS NOT NULL) AND (h.nickname = ( SELECT "MSmerge_replinfo".nickname
                   FROM rowtide_merge."MSmerge_replinfo"))))) AS partchangegen,
    c.lineage,
    c.colv AS colvl,
    NULL::text AS marker,
    NULL::text AS logical_record_parent_rowguid,
    NULL::text AS logical_record_lineage,
    NULL::text AS logical_relation_change_gen
   FROM ((pending p
     LEFT JOIN rowtide_merge."MSmerge_stored_contents" c ON (((c.tablenick = p.tablenick) AND (c.rowguid = p.rowguid))))
     LEFT JOIN LATERAL ( SELECT min(h.generation) AS number
           FROM rowtide_merge."MSmerge_stored_genhistory" h
          WHERE ((h.snapshot IS NOT NULL) AND (h.nickname = ( SELECT "MSmerge_replinfo".nickname
                   FROM rowtide_merge."MSmerge_replinfo")) AND pg_visible_in_snapshot(((p.stamp)::text)::xid8, (h.snapshot)::pg_snapshot))) g ON (true))
  WHERE (p.is_live = 1);


ALTER VIEW rowtide_merge."MSmerge_contents" OWNER TO postgres;

--
-- Name: sysmerge_stored_publications; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge.sysmerge_stored_publications (
    pubid text NOT NULL,
    name text NOT NULL,
    publisher bigint NOT NULL,
    retention integer NOT NULL,
    replicate_ddl integer DEFAULT 1 NOT NULL,
    allow_partition_realignment integer DEFAULT 1 NOT NULL,
    conflict_retention integer DEFAULT 0 NOT NULL,
    run_as text DEFAULT 'owner'::text NOT NULL
);


ALTER TABLE rowtide_merge.sysmerge_stored_publications OWNER TO postgres;

--
-- Name: COLUMN sysmerge_stored_publications.publisher; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_publications.publisher IS 'the hub''s nickname';


--
-- Name: COLUMN sysmerge_stored_publications.retention; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_publications.retention IS 'days; 0: for ever';


--
-- Name: COLUMN sysmerge_stored_publications.replicate_ddl; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_publications.replicate_ddl IS '0: new columns are not sent';


--
-- Name: COLUMN sysmerge_stored_publications.allow_partition_realignment; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_publications.allow_partition_realignment IS '0: rows that leave a partition stay at its subscribers';


--
-- Name: COLUMN sysmerge_stored_publications.conflict_retention; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_publications.conflict_retention IS 'days; 0: for ever';


--
-- Name: COLUMN sysmerge_stored_publications.run_as; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_publications.run_as IS 'with whose rights the code of tables runs that this node writes: owner, agent';


--
-- Name: MSmerge_current_partition_mappings; Type: VIEW; Schema: rowtide_merge; Owner: postgres
--

CREATE VIEW rowtide_merge."MSmerge_current_partition_mappings" AS
 SELECT ( SELECT count(*) AS count
           FROM rowtide_merge.sysmerge_stored_publications q
          WHERE (q.pubid <= m.pubid)) AS publication_number,
    tablenick,
    rowguid,
    partition_id
   FROM ( SELECT partition_members.pubid,
            partition_members.partition_id,
            partition_members.tablenick,
            partition_members.rowguid,
            partition_members.parent,
            partition_members.is_in,
            partition_members.is_held,
            partition_members.is_changed
           FROM rowtide_merge.partition_members() partition_members(pubid, partition_id, tablenick, rowguid, parent, is_in, is_held, is_changed)) m
  WHERE ((is_in = 1) AND (is_changed = 1));


ALTER VIEW rowtide_merge."MSmerge_current_partition_mappings" OWNER TO postgres;

--
-- Name: MSmerge_stored_tombstone; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge."MSmerge_stored_tombstone" (
    tablenick integer NOT NULL,
    rowguid uuid NOT NULL,
    stamp bigint NOT NULL,
    type smallint NOT NULL,
    origin bigint,
    priority double precision,
    lineage bytea,
    last bytea
);


ALTER TABLE rowtide_merge."MSmerge_stored_tombstone" OWNER TO postgres;

--
-- Name: MSmerge_tombstone; Type: VIEW; Schema: rowtide_merge; Owner: postgres
--

CREATE VIEW rowtide_merge."MSmerge_tombstone" AS
 WITH pending AS (
         SELECT pending_changes.tablenick,
            pending_changes.rowguid,
            pending_changes.is_live,
            pending_changes.stamp
           FROM rowtide_merge.pending_changes() pending_changes(tablenick, rowguid, is_live, stamp)
        )
 SELECT d.rowguid,
    d.tablenick,
    d.type,
    d.lineage,
    COALESCE(g.number, ( SELECT (COALESCE(max(h.generation), (0)::bigint) + 1)
           FROM rowtide_merge."MSmerge_stored_genhistory" h
          WHERE ((h.snapshot IS NOT NULL) AND (h.nickname = ( SELECT "MSmerge_replinfo".nickname
                   FROM rowtide_merge."MSmerge_replinfo"))))) AS generation,
    NULL::text AS logical_record_parent_rowguid,
    NULL::text AS logical_record_lineage
   FROM (rowtide_merge."MSmerge_stored_tombstone" d
     LEFT JOIN LATERAL ( SELECT min(h.generation) AS number
           FROM rowtide_merge."MSmerge_stored_genhistory" h
          WHERE ((h.snapshot IS NOT NULL) AND (h.nickname = ( SELECT "MSmerge_replinfo".nickname
                   FROM rowtide_merge."MSmerge_replinfo")) AND pg_visible_in_snapshot(((d.stamp)::text)::xid8, (h.snapshot)::pg_snapshot))) g ON (true))
  WHERE ((NOT (EXISTS ( SELECT 1
           FROM pending o
          WHERE ((o.tablenick = d.tablenick) AND (o.rowguid = d.rowguid))))) AND (NOT (EXISTS ( SELECT 1
           FROM rowtide_merge."MSmerge_stored_contents" o
          WHERE ((o.tablenick = d.tablenick) AND (o.rowguid = d.rowguid))))))
UNION ALL
 SELECT p.rowguid,
    p.tablenick,
    1 AS type,
    COALESCE(c.lineage, d.lineage) AS lineage,
    COALESCE(g.number, ( SELECT (COALESCE(max(h.generation), (0)::bigint) + 1)
           FROM rowtide_merge."MSmerge_stored_genhistory" h
          WHERE ((h.snapshot IS NOT NULL) AND (h.nickname = ( SELECT "MSmerge_replinfo".nickname
                   FROM rowtide_merge."MSmerge_replinfo"))))) AS generation,
    NULL::text AS logical_record_parent_rowguid,
    NULL::text AS logical_record_lineage
   FROM (((pending p
     LEFT JOIN rowtide_merge."MSmerge_stored_contents" c ON (((c.tablenick = p.tablenick) AND (c.rowguid = p.rowguid))))
     LEFT JOIN rowtide_merge."MSmerge_stored_tombstone" d ON (((d.tablenick = p.tablenick) AND (d.rowguid = p.rowguid))))
     LEFT JOIN LATERAL ( SELECT min(h.generation) AS number
           FROM rowtide_merge."MSmerge_stored_genhistory" h
          WHERE ((h.snapshot IS NOT NULL) AND (h.nickname = ( SELECT "MSmerge_replinfo".nickname
                   FROM rowtide_merge."MSmerge_replinfo")) AND pg_visible_in_snapshot(((p.stamp)::text)::xid8, (h.snapshot)::pg_snapshot))) g ON (true))
  WHERE (p.is_live = 0);


ALTER VIEW rowtide_merge."MSmerge_tombstone" OWNER TO postgres;

--
-- Name: MSmerge_past_partition_mappings; Type: VIEW; Schema: rowtide_merge; Owner: postgres
--

CREATE VIEW rowtide_merge."MSmerge_past_partition_mappings" AS
 SELECT ( SELECT count(*) AS count
           FROM rowtide_merge.sysmerge_stored_publications q
          WHERE (q.pubid <= m.pubid)) AS publication_number,
    m.tablenick,
    m.rowguid,
    m.partition_id,
    COALESCE(d0.generation, c0.generation, d1.generation, c1.generation, ( SELECT (COALESCE(max(h.generation), (0)::bigint) + 1)
           FROM rowtide_merge."MSmerge_stored_genhistory" h
          WHERE ((h.snapshot IS NOT NULL) AND (h.nickname = ( SELECT "MSmerge_replinfo".nickname
                   FROM rowtide_merge."MSmerge_replinfo"))))) AS generation,
        CASE
            WHEN (d0.rowguid IS NULL) THEN 5
            ELSE 1
        END AS reason
   FROM ((((( SELECT partition_members.pubid,
            partition_members.partition_id,
            partition_members.tablenick,
            partition_members.rowguid,
            partition_members.parent,
            partition_members.is_in,
            partition_members.is_held,
            partition_members.is_changed
           FROM rowtide_merge.partition_members() partition_members(pubid, partition_id, tablenick, rowguid, parent, is_in, is_held, is_changed)) m
     LEFT JOIN rowtide_merge."MSmerge_tombstone" d0 ON ((d0.rowguid = m.rowguid)))
     LEFT JOIN rowtide_merge."MSmerge_contents" c0 ON ((c0.rowguid = m.rowguid)))
     LEFT JOIN rowtide_merge."MSmerge_tombstone" d1 ON ((d1.rowguid = m.parent)))
     LEFT JOIN rowtide_merge."MSmerge_contents" c1 ON ((c1.rowguid = m.parent)))
  WHERE ((m.is_in = 0) AND (m.is_held = 1));


ALTER VIEW rowtide_merge."MSmerge_past_partition_mappings" OWNER TO postgres;

--
-- Name: MSmerge_generation_partition_mappings; Type: VIEW; Schema: rowtide_merge; Owner: postgres
--

CREATE VIEW rowtide_merge."MSmerge_generation_partition_mappings" AS
 SELECT publication_number,
    generation,
    partition_id,
    count(*) AS changecount
   FROM ( SELECT m.publication_number,
            c.generation,
            m.partition_id
           FROM (rowtide_merge."MSmerge_current_partition_mappings" m
             JOIN rowtide_merge."MSmerge_contents" c ON (((c.tablenick = m.tablenick) AND (c.rowguid = m.rowguid))))
        UNION ALL
         SELECT "MSmerge_past_partition_mappings".publication_number,
            "MSmerge_past_partition_mappings".generation,
            "MSmerge_past_partition_mappings".partition_id
           FROM rowtide_merge."MSmerge_past_partition_mappings") b
  WHERE (generation IN ( SELECT h.generation
           FROM rowtide_merge."MSmerge_stored_genhistory" h
          WHERE (h.nickname = ( SELECT "MSmerge_replinfo".nickname
                   FROM rowtide_merge."MSmerge_replinfo"))))
  GROUP BY publication_number, generation, partition_id;


ALTER VIEW rowtide_merge."MSmerge_generation_partition_mappings" OWNER TO postgres;

--
-- Name: sysmerge_stored_subscriptions; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge.sysmerge_stored_subscriptions (
    subid text NOT NULL,
    pubid text NOT NULL,
    subscriber_server text NOT NULL,
    replnickname bigint NOT NULL,
    subscriber_type integer NOT NULL,
    priority double precision NOT NULL,
    sentgen bigint NOT NULL,
    recgen bigint NOT NULL,
    replicastate text NOT NULL,
    next_replicastate text,
    session bigint NOT NULL,
    settledgen bigint NOT NULL,
    waitinggen bigint,
    waitingpubgen bigint,
    partition_id integer,
    last_sync_date timestamp with time zone,
    last_validated timestamp with time zone,
    attempted_validate timestamp with time zone,
    last_upload_date timestamp with time zone,
    last_download_date timestamp with time zone,
    last_sync_status integer NOT NULL,
    last_sync_summary text,
    schemaversion integer DEFAULT 0 NOT NULL,
    schemaguid text
);


ALTER TABLE rowtide_merge.sysmerge_stored_subscriptions OWNER TO postgres;

--
-- Name: COLUMN sysmerge_stored_subscriptions.subscriber_server; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_subscriptions.subscriber_server IS 'its URL, without a password';


--
-- Name: COLUMN sysmerge_stored_subscriptions.replnickname; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_subscriptions.replnickname IS 'of the other node';


--
-- Name: COLUMN sysmerge_stored_subscriptions.subscriber_type; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_subscriptions.subscriber_type IS '1 server, 2 client';


--
-- Name: COLUMN sysmerge_stored_subscriptions.replicastate; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_subscriptions.replicastate IS 'the mark of the last synchronisation';


--
-- Name: COLUMN sysmerge_stored_subscriptions.next_replicastate; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_subscriptions.next_replicastate IS 'the mark that the current one leaves';


--
-- Name: COLUMN sysmerge_stored_subscriptions.settledgen; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_subscriptions.settledgen IS 'metadata up to it are not needed for this subscription';


--
-- Name: COLUMN sysmerge_stored_subscriptions.waitinggen; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_subscriptions.waitinggen IS 'it is settled when the publisher has purged waitingpubgen';


--
-- Name: COLUMN sysmerge_stored_subscriptions.partition_id; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_subscriptions.partition_id IS 'of the subscriber; null where no article is filtered';


--
-- Name: COLUMN sysmerge_stored_subscriptions.last_sync_date; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_subscriptions.last_sync_date IS 'the earlier of the next two, where they were split';


--
-- Name: COLUMN sysmerge_stored_subscriptions.last_validated; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_subscriptions.last_validated IS 'when all rows were found equal';


--
-- Name: COLUMN sysmerge_stored_subscriptions.last_sync_status; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_subscriptions.last_sync_status IS '0 waiting, 2 succeeded, 3 running, 6 failed';


--
-- Name: COLUMN sysmerge_stored_subscriptions.schemaversion; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_subscriptions.schemaversion IS 'of the last change followed';


--
-- Name: MSmerge_genhistory; Type: VIEW; Schema: rowtide_merge; Owner: postgres
--

CREATE VIEW rowtide_merge."MSmerge_genhistory" AS
 WITH changed AS (
         SELECT b.generation,
            count(*) AS changes,
            min(b.tablenick) AS lowest,
            max(b.tablenick) AS highest
           FROM ( SELECT "MSmerge_contents".generation,
                    "MSmerge_contents".tablenick
                   FROM rowtide_merge."MSmerge_contents"
                UNION ALL
                 SELECT "MSmerge_tombstone".generation,
                    "MSmerge_tombstone".tablenick
                   FROM rowtide_merge."MSmerge_tombstone") b
          GROUP BY b.generation
        )
 SELECT h.guidsrc,
    ( SELECT
                CASE
                    WHEN (count(*) = 1) THEN min(q.pubid)
                    ELSE NULL::text
                END AS "case"
           FROM rowtide_merge.sysmerge_stored_publications q) AS pubid,
    h.generation,
        CASE
            WHEN (c.lowest = c.highest) THEN c.lowest
            ELSE 0
        END AS art_nick,
    ( SELECT string_agg(lpad(to_hex(o.n), 12, '0'::text), ' '::text ORDER BY o.n) AS string_agg
           FROM ( SELECT self.nickname AS n
                UNION
                 SELECT h.nickname
                UNION
                 SELECT s.replnickname
                   FROM rowtide_merge.sysmerge_stored_subscriptions s
                  WHERE ((h.nickname = self.nickname) AND (s.sentgen >= h.generation))) o) AS nicknames,
    h.coldate,
    h.genstatus,
        CASE
            WHEN (h.nickname = self.nickname) THEN COALESCE(c.changes, (0)::bigint)
            ELSE NULL::bigint
        END AS changecount
   FROM ((rowtide_merge."MSmerge_stored_genhistory" h
     CROSS JOIN rowtide_merge."MSmerge_replinfo" self)
     LEFT JOIN changed c ON (((c.generation = h.generation) AND (h.nickname = self.nickname))))
UNION ALL
 SELECT NULL::text AS guidsrc,
    ( SELECT
                CASE
                    WHEN (count(*) = 1) THEN min(q.pubid)
                    ELSE NULL::text
                END AS "case"
           FROM rowtide_merge.sysmerge_stored_publications q) AS pubid,
    c.generation,
        CASE
            WHEN (c.lowest = c.highest) THEN c.lowest
            ELSE 0
        END AS art_nick,
    ( SELECT string_agg(lpad(to_hex(o.n), 12, '0'::text), ' '::text ORDER BY o.n) AS string_agg
           FROM ( SELECT self.nickname AS n) o) AS nicknames,
    NULL::timestamp with time zone AS coldate,
    0 AS genstatus,
    c.changes AS changecount
   FROM (changed c
     CROSS JOIN rowtide_merge."MSmerge_replinfo" self)
  WHERE (c.generation = ( SELECT (COALESCE(max(h.generation), (0)::bigint) + 1)
           FROM rowtide_merge."MSmerge_stored_genhistory" h
          WHERE ((h.snapshot IS NOT NULL) AND (h.nickname = ( SELECT "MSmerge_replinfo".nickname
                   FROM rowtide_merge."MSmerge_replinfo")))));


ALTER VIEW rowtide_merge."MSmerge_genhistory" OWNER TO postgres;

--
-- Name: MSmerge_identity_range; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge."MSmerge_identity_range" (
    subid text NOT NULL,
    artid integer NOT NULL,
    range_begin bigint NOT NULL,
    range_end bigint NOT NULL,
    next_range_begin bigint NOT NULL,
    next_range_end bigint NOT NULL,
    is_pub_range integer NOT NULL,
    max_used bigint,
    is_own boolean NOT NULL
);


ALTER TABLE rowtide_merge."MSmerge_identity_range" OWNER TO postgres;

--
-- Name: COLUMN "MSmerge_identity_range".subid; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_identity_range".subid IS 'of the subscription; the publication''s for its publisher';


--
-- Name: COLUMN "MSmerge_identity_range".artid; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_identity_range".artid IS 'the table''s nickname';


--
-- Name: COLUMN "MSmerge_identity_range".range_end; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_identity_range".range_end IS 'included';


--
-- Name: COLUMN "MSmerge_identity_range".next_range_begin; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_identity_range".next_range_begin IS 'of the secondary range';


--
-- Name: COLUMN "MSmerge_identity_range".is_pub_range; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_identity_range".is_pub_range IS '1: for the subscribers of the subscriber';


--
-- Name: COLUMN "MSmerge_identity_range".max_used; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_identity_range".max_used IS 'the last number known to be used; of a publisher: the last given to a node';


--
-- Name: COLUMN "MSmerge_identity_range".is_own; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_identity_range".is_own IS 'this node''s programs get numbers of it';


--
-- Name: MSmerge_log; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge."MSmerge_log" (
    tablenick integer NOT NULL,
    rowguid uuid NOT NULL,
    kind smallint NOT NULL,
    stamp bigint NOT NULL,
    columns boolean[],
    base text,
    ordinal bigint,
    key text
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='1000');


ALTER TABLE rowtide_merge."MSmerge_log" OWNER TO postgres;

--
-- Name: MSmerge_log_order; Type: SEQUENCE; Schema: rowtide_merge; Owner: postgres
--

CREATE SEQUENCE rowtide_merge."MSmerge_log_order"
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER SEQUENCE rowtide_merge."MSmerge_log_order" OWNER TO postgres;

--
-- Name: MSmerge_stored_partition_groups; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge."MSmerge_stored_partition_groups" (
    partition_id integer NOT NULL,
    pubid text NOT NULL,
    "HOST_NAME_FN" text,
    "SUSER_NAME_FN" text,
    is_explicit boolean NOT NULL
);


ALTER TABLE rowtide_merge."MSmerge_stored_partition_groups" OWNER TO postgres;

--
-- Name: COLUMN "MSmerge_stored_partition_groups"."HOST_NAME_FN"; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_stored_partition_groups"."HOST_NAME_FN" IS 'what host_name() is; null: no filter asks';


--
-- Name: COLUMN "MSmerge_stored_partition_groups"."SUSER_NAME_FN"; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_stored_partition_groups"."SUSER_NAME_FN" IS 'what suser_name() is';


--
-- Name: COLUMN "MSmerge_stored_partition_groups".is_explicit; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_stored_partition_groups".is_explicit IS 'it stays without a subscription';


--
-- Name: MSmerge_partition_groups; Type: VIEW; Schema: rowtide_merge; Owner: postgres
--

CREATE VIEW rowtide_merge."MSmerge_partition_groups" AS
 SELECT partition_id,
    ( SELECT count(*) AS count
           FROM rowtide_merge.sysmerge_stored_publications q
          WHERE (q.pubid <= g.pubid)) AS publication_number,
    NULL::text AS maxgen_whenadded,
    1 AS using_partition_groups,
    "HOST_NAME_FN",
    "SUSER_NAME_FN",
    is_explicit
   FROM rowtide_merge."MSmerge_stored_partition_groups" g;


ALTER VIEW rowtide_merge."MSmerge_partition_groups" OWNER TO postgres;

--
-- Name: MSmerge_replinfo_nickname_seq; Type: SEQUENCE; Schema: rowtide_merge; Owner: postgres
--

CREATE SEQUENCE rowtide_merge."MSmerge_replinfo_nickname_seq"
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER SEQUENCE rowtide_merge."MSmerge_replinfo_nickname_seq" OWNER TO postgres;

--
-- Name: MSmerge_replinfo_nickname_seq; Type: SEQUENCE OWNED BY; Schema: rowtide_merge; Owner: postgres
--

ALTER SEQUENCE rowtide_merge."MSmerge_replinfo_nickname_seq" OWNED BY rowtide_merge."MSmerge_replinfo".nickname;


--
-- Name: MSmerge_retries; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge."MSmerge_retries" (
    source bigint NOT NULL,
    tablenick integer NOT NULL,
    rowguid text NOT NULL,
    reason_code text NOT NULL,
    reason_text text NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL
);


ALTER TABLE rowtide_merge."MSmerge_retries" OWNER TO postgres;

--
-- Name: COLUMN "MSmerge_retries".source; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_retries".source IS 'the nickname of the node that is asked again';


--
-- Name: MSmerge_row_hashes; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge."MSmerge_row_hashes" (
    batch integer NOT NULL,
    tablenick integer NOT NULL,
    columns text NOT NULL,
    entries bytea NOT NULL
);


ALTER TABLE rowtide_merge."MSmerge_row_hashes" OWNER TO postgres;

--
-- Name: COLUMN "MSmerge_row_hashes".columns; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_row_hashes".columns IS 'JSON: names of those that the hashes are of';


--
-- Name: COLUMN "MSmerge_row_hashes".entries; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_row_hashes".entries IS 'of each row 16 bytes of its rowguid, 8 of its hash';


--
-- Name: MSmerge_row_hashes_batch_seq; Type: SEQUENCE; Schema: rowtide_merge; Owner: postgres
--

CREATE SEQUENCE rowtide_merge."MSmerge_row_hashes_batch_seq"
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER SEQUENCE rowtide_merge."MSmerge_row_hashes_batch_seq" OWNER TO postgres;

--
-- Name: MSmerge_row_hashes_batch_seq; Type: SEQUENCE OWNED BY; Schema: rowtide_merge; Owner: postgres
--

ALTER SEQUENCE rowtide_merge."MSmerge_row_hashes_batch_seq" OWNED BY rowtide_merge."MSmerge_row_hashes".batch;


--
-- Name: MSmerge_sessions; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge."MSmerge_sessions" (
    session_id integer NOT NULL,
    subid text NOT NULL,
    start_time timestamp with time zone NOT NULL,
    duration double precision NOT NULL,
    upload_time double precision NOT NULL,
    download_time double precision NOT NULL,
    runstatus integer NOT NULL,
    message text
);


ALTER TABLE rowtide_merge."MSmerge_sessions" OWNER TO postgres;

--
-- Name: COLUMN "MSmerge_sessions".duration; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_sessions".duration IS 'seconds';


--
-- Name: COLUMN "MSmerge_sessions".runstatus; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_sessions".runstatus IS '2 succeeded, 6 failed';


--
-- Name: MSmerge_sessions_session_id_seq; Type: SEQUENCE; Schema: rowtide_merge; Owner: postgres
--

CREATE SEQUENCE rowtide_merge."MSmerge_sessions_session_id_seq"
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER SEQUENCE rowtide_merge."MSmerge_sessions_session_id_seq" OWNER TO postgres;

--
-- Name: MSmerge_sessions_session_id_seq; Type: SEQUENCE OWNED BY; Schema: rowtide_merge; Owner: postgres
--

ALTER SEQUENCE rowtide_merge."MSmerge_sessions_session_id_seq" OWNED BY rowtide_merge."MSmerge_sessions".session_id;


--
-- Name: MSmerge_stored_partition_groups_partition_id_seq; Type: SEQUENCE; Schema: rowtide_merge; Owner: postgres
--

CREATE SEQUENCE rowtide_merge."MSmerge_stored_partition_groups_partition_id_seq"
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER SEQUENCE rowtide_merge."MSmerge_stored_partition_groups_partition_id_seq" OWNER TO postgres;

--
-- Name: MSmerge_stored_partition_groups_partition_id_seq; Type: SEQUENCE OWNED BY; Schema: rowtide_merge; Owner: postgres
--

ALTER SEQUENCE rowtide_merge."MSmerge_stored_partition_groups_partition_id_seq" OWNED BY rowtide_merge."MSmerge_stored_partition_groups".partition_id;


--
-- Name: MSmerge_stored_partition_mappings; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge."MSmerge_stored_partition_mappings" (
    replnickname bigint NOT NULL,
    tablenick integer NOT NULL,
    rowguid uuid NOT NULL,
    parent uuid,
    generation bigint NOT NULL,
    is_leaving boolean NOT NULL
);


ALTER TABLE rowtide_merge."MSmerge_stored_partition_mappings" OWNER TO postgres;

--
-- Name: COLUMN "MSmerge_stored_partition_mappings".replnickname; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_stored_partition_mappings".replnickname IS 'of the subscriber that has the row';


--
-- Name: COLUMN "MSmerge_stored_partition_mappings".parent; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_stored_partition_mappings".parent IS 'the row by which it has it, null by the article''s own filter';


--
-- Name: COLUMN "MSmerge_stored_partition_mappings".generation; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_stored_partition_mappings".generation IS 'in which it was first sent; 0: it came from there';


--
-- Name: COLUMN "MSmerge_stored_partition_mappings".is_leaving; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_stored_partition_mappings".is_leaving IS 'it is in the partition no more, but may be there still';


--
-- Name: MSsnapshotdeliveryprogress; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge."MSsnapshotdeliveryprogress" (
    session_token text NOT NULL,
    progress_token text NOT NULL,
    progress_timestamp timestamp with time zone DEFAULT now() NOT NULL
);


ALTER TABLE rowtide_merge."MSsnapshotdeliveryprogress" OWNER TO postgres;

--
-- Name: COLUMN "MSsnapshotdeliveryprogress".session_token; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSsnapshotdeliveryprogress".session_token IS 'of the snapshot that is being delivered';


--
-- Name: COLUMN "MSsnapshotdeliveryprogress".progress_token; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSsnapshotdeliveryprogress".progress_token IS 'a file that has been';


--
-- Name: rowtide_format; Type: VIEW; Schema: rowtide_merge; Owner: postgres
--

CREATE VIEW rowtide_merge.rowtide_format AS
 SELECT 1 AS number,
    1 AS least_reader,
    1 AS least_writer;


ALTER VIEW rowtide_merge.rowtide_format OWNER TO postgres;

--
-- Name: sysmerge_stored_articles; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge.sysmerge_stored_articles (
    pubid text NOT NULL,
    name text NOT NULL,
    nickname integer NOT NULL,
    processing_order integer NOT NULL,
    column_tracking boolean NOT NULL,
    article_resolver text NOT NULL,
    definition text NOT NULL,
    purged_lineage bytea NOT NULL,
    preserve_rowguidcol boolean NOT NULL
);


ALTER TABLE rowtide_merge.sysmerge_stored_articles OWNER TO postgres;

--
-- Name: COLUMN sysmerge_stored_articles.nickname; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_articles.nickname IS 'the table''s, in all metadata';


--
-- Name: COLUMN sysmerge_stored_articles.definition; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_articles.definition IS 'JSON: all of it';


--
-- Name: COLUMN sysmerge_stored_articles.purged_lineage; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_articles.purged_lineage IS 'what rows without metadata include';


--
-- Name: COLUMN sysmerge_stored_articles.preserve_rowguidcol; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmerge_stored_articles.preserve_rowguidcol IS 'false: the column rowguid goes with the article';


--
-- Name: sysmergearticles; Type: VIEW; Schema: rowtide_merge; Owner: postgres
--

CREATE VIEW rowtide_merge.sysmergearticles AS
 SELECT name,
    10 AS type,
    (
        CASE
            WHEN (((definition)::json ->> 'schema'::text) = ''::text) THEN ( SELECT (r.oid)::regclass AS oid
               FROM pg_class r
              WHERE ((r.relname = ((a.definition)::json ->> 'table'::text)) AND (EXISTS ( SELECT
                       FROM pg_trigger t
                      WHERE ((t.tgrelid = r.oid) AND ("left"((t.tgname)::text, 8) = 'MSmerge_'::text)))))
              ORDER BY r.oid
             LIMIT 1)
            ELSE to_regclass(concat(quote_ident(((definition)::json ->> 'schema'::text)), '.', quote_ident(((definition)::json ->> 'table'::text))))
        END)::oid AS objid,
    NULL::text AS sync_objid,
    0 AS view_type,
    NULL::text AS artid,
    NULL::text AS pre_creation_command,
    pubid,
    nickname,
    column_tracking,
    2 AS status,
    'MSmerge_conflicts_info'::text AS conflict_table,
    article_resolver,
    NULL::text AS ins_conflict_proc,
    NULL::text AS insert_proc,
    NULL::text AS update_proc,
    NULL::text AS select_proc,
    NULL::text AS metadata_select_proc,
    NULL::text AS delete_proc,
    NULL::text AS schema_option,
    ((definition)::json ->> 'table'::text) AS destination_object,
    ((definition)::json ->> 'schema'::text) AS destination_owner,
    NULL::text AS resolver_clsid,
    ((definition)::json ->> 'subset_filter'::text) AS subset_filterclause,
    0 AS missing_col_count,
    NULL::text AS missing_cols,
    NULL::text AS excluded_cols,
    ( SELECT string_agg((o.value ->> 'name'::text), ', '::text ORDER BY o.place) AS string_agg
           FROM json_array_elements(((a.definition)::json -> 'columns'::text)) WITH ORDINALITY o(value, place)) AS columns,
    NULL::text AS deleted_cols,
    NULL::text AS resolver_info,
    NULL::text AS view_sel_proc,
    ( SELECT (COALESCE(max(h.generation), (0)::bigint) + 1)
           FROM rowtide_merge."MSmerge_stored_genhistory" h
          WHERE ((h.snapshot IS NOT NULL) AND (h.nickname = ( SELECT "MSmerge_replinfo".nickname
                   FROM rowtide_merge."MSmerge_replinfo")))) AS gen_cur,
    COALESCE(
        CASE ((definition)::json ->> 'vertical_partition'::text)
            WHEN 'true'::text THEN 1
            WHEN 'false'::text THEN 0
            ELSE (((definition)::json ->> 'vertical_partition'::text))::integer
        END, 0) AS vertical_partition,
        CASE
            WHEN (
            CASE ((definition)::json ->> 'identity_range'::text)
                WHEN 'true'::text THEN 1
                WHEN 'false'::text THEN 0
                ELSE (((definition)::json ->> 'identity_range'::text))::integer
            END > 0) THEN 1
            ELSE 0
        END AS identity_support,
    NULL::text AS before_image_objid,
    NULL::text AS before_view_objid,
    NULL::text AS verify_resolver_signature,
    0 AS allow_interactive_resolver,
    1 AS fast_multicol_updateproc,
    0 AS check_permissions,
    NULL::text AS maxversion_at_cleanup,
    processing_order,
    COALESCE(
        CASE ((definition)::json ->> 'subscriber_upload_options'::text)
            WHEN 'true'::text THEN 1
            WHEN 'false'::text THEN 0
            ELSE (((definition)::json ->> 'subscriber_upload_options'::text))::integer
        END, 0) AS upload_options,
    NULL::text AS published_in_tran_pub,
    0 AS lightweight,
    1 AS delete_tracking,
    COALESCE(
        CASE ((definition)::json ->> 'compensate_for_errors'::text)
            WHEN 'true'::text THEN 1
            WHEN 'false'::text THEN 0
            ELSE (((definition)::json ->> 'compensate_for_errors'::text))::integer
        END, 0) AS compensate_for_errors,
        CASE ((definition)::json ->> 'publisher_identity_range'::text)
            WHEN 'true'::text THEN 1
            WHEN 'false'::text THEN 0
            ELSE (((definition)::json ->> 'publisher_identity_range'::text))::integer
        END AS pub_range,
        CASE ((definition)::json ->> 'identity_range'::text)
            WHEN 'true'::text THEN 1
            WHEN 'false'::text THEN 0
            ELSE (((definition)::json ->> 'identity_range'::text))::integer
        END AS range,
        CASE ((definition)::json ->> 'threshold'::text)
            WHEN 'true'::text THEN 1
            WHEN 'false'::text THEN 0
            ELSE (((definition)::json ->> 'threshold'::text))::integer
        END AS threshold,
    0 AS stream_blob_columns,
    preserve_rowguidcol
   FROM rowtide_merge.sysmerge_stored_articles a;


ALTER VIEW rowtide_merge.sysmergearticles OWNER TO postgres;

--
-- Name: sysmergepublications; Type: VIEW; Schema: rowtide_merge; Owner: postgres
--

CREATE VIEW rowtide_merge.sysmergepublications AS
 SELECT
        CASE
            WHEN (p.publisher = self.nickname) THEN (current_database())::text
            ELSE NULL::text
        END AS publisher,
    NULL::text AS publisher_db,
    p.name,
    p.retention,
    0 AS retention_period_unit,
        CASE
            WHEN (EXISTS ( SELECT 1
               FROM rowtide_merge.sysmerge_stored_articles a
              WHERE ((a.pubid = p.pubid) AND ((lower(((a.definition)::json ->> 'subset_filter'::text)) IS NOT NULL) OR (EXISTS ( SELECT 1
                       FROM LATERAL json_array_elements(((a.definition)::json -> 'join_filters'::text)) e(value))))))) THEN 1
            ELSE 0
        END AS publication_type,
    p.pubid,
    NULL::text AS parentid,
    0 AS sync_mode,
    1 AS allow_push,
    0 AS allow_pull,
    0 AS allow_anonymous,
    1 AS centralized_conflicts,
    0 AS decentralized_conflicts,
    1 AS snapshot_ready,
        CASE
            WHEN (EXISTS ( SELECT 1
               FROM rowtide_merge.sysmerge_stored_articles a
              WHERE ((a.pubid = p.pubid) AND ((lower(((a.definition)::json ->> 'subset_filter'::text)) ~~ '%host_name(%'::text) OR (lower(((a.definition)::json ->> 'subset_filter'::text)) ~~ '%suser_name(%'::text))))) THEN 1
            ELSE 0
        END AS dynamic_filters,
    p.conflict_retention,
    0 AS keep_before_values,
    NULL::text AS validate_subscriber_info,
    NULL::text AS backward_comp_level,
    0 AS max_concurrent_merge,
    0 AS max_concurrent_dynamic_snapshots,
    1 AS use_partition_groups,
    NULL::text AS dynamic_filters_function_list,
    NULL::text AS partition_id_eval_proc,
    ( SELECT count(*) AS count
           FROM rowtide_merge.sysmerge_stored_publications q
          WHERE (q.pubid <= p.pubid)) AS publication_number,
    p.replicate_ddl,
    0 AS allow_web_synchronization,
    p.allow_partition_realignment,
    0 AS generation_leveling_threshold,
    0 AS automatic_reinitialization_policy
   FROM (rowtide_merge.sysmerge_stored_publications p
     CROSS JOIN rowtide_merge."MSmerge_replinfo" self);


ALTER VIEW rowtide_merge.sysmergepublications OWNER TO postgres;

--
-- Name: sysmergeschemachange; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge.sysmergeschemachange (
    pubid text NOT NULL,
    schemaversion integer NOT NULL,
    schemaguid text NOT NULL,
    article_name text NOT NULL,
    column_number integer,
    schematype text NOT NULL,
    schematext text NOT NULL,
    schemastatus text DEFAULT 'active'::text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL
);


ALTER TABLE rowtide_merge.sysmergeschemachange OWNER TO postgres;

--
-- Name: COLUMN sysmergeschemachange.column_number; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmergeschemachange.column_number IS 'of the article''s; null: the article''s own';


--
-- Name: COLUMN sysmergeschemachange.schemastatus; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmergeschemachange.schemastatus IS 'skipped: left to subscribers';


--
-- Name: sysmergesubscriptions; Type: VIEW; Schema: rowtide_merge; Owner: postgres
--

CREATE VIEW rowtide_merge.sysmergesubscriptions AS
 SELECT s.subscriber_server,
    NULL::text AS db_name,
    p.pubid,
    0 AS datasource_type,
    s.subid,
        CASE
            WHEN (p.publisher = self.nickname) THEN s.replnickname
            ELSE self.nickname
        END AS replnickname,
    s.replicastate,
    1 AS status,
    s.subscriber_type,
    0 AS subscription_type,
    1 AS sync_type,
    NULL::text AS description,
    s.priority,
    s.recgen,
    ( SELECT h.guidsrc
           FROM rowtide_merge."MSmerge_stored_genhistory" h
          WHERE ((h.nickname = s.replnickname) AND (h.generation = s.recgen))) AS recguid,
    s.sentgen,
    ( SELECT h.guidsrc
           FROM rowtide_merge."MSmerge_stored_genhistory" h
          WHERE ((h.nickname = self.nickname) AND (h.generation = s.sentgen))) AS sentguid,
    s.schemaversion,
    s.schemaguid,
    s.last_validated,
    s.attempted_validate,
    s.last_sync_date,
    s.last_sync_status,
    s.last_sync_summary,
        CASE
            WHEN (NOT (p.publisher = self.nickname)) THEN self.metadatacleanuptime
            ELSE NULL::timestamp with time zone
        END AS metadatacleanuptime,
    s.partition_id,
    0 AS cleanedup_unsent_changes,
    NULL::text AS replica_version,
        CASE
            WHEN (NOT (p.publisher = self.nickname)) THEN ( SELECT max(h.coldate) AS max
               FROM rowtide_merge."MSmerge_stored_genhistory" h
              WHERE (h.nickname = self.nickname))
            ELSE NULL::timestamp with time zone
        END AS last_makegeneration_datetime
   FROM ((rowtide_merge.sysmerge_stored_publications p
     CROSS JOIN rowtide_merge."MSmerge_replinfo" self)
     JOIN rowtide_merge.sysmerge_stored_subscriptions s ON ((s.pubid = p.pubid)))
UNION ALL
 SELECT
        CASE
            WHEN (p.publisher = self.nickname) THEN (current_database())::text
            ELSE NULL::text
        END AS subscriber_server,
    NULL::text AS db_name,
    p.pubid,
    0 AS datasource_type,
    p.pubid AS subid,
    p.publisher AS replnickname,
    NULL::text AS replicastate,
    1 AS status,
    1 AS subscriber_type,
    0 AS subscription_type,
    1 AS sync_type,
    NULL::text AS description,
    100.0 AS priority,
    NULL::bigint AS recgen,
    NULL::text AS recguid,
    NULL::bigint AS sentgen,
    NULL::text AS sentguid,
    NULL::integer AS schemaversion,
    NULL::text AS schemaguid,
    NULL::timestamp with time zone AS last_validated,
    NULL::timestamp with time zone AS attempted_validate,
    NULL::timestamp with time zone AS last_sync_date,
    NULL::integer AS last_sync_status,
    NULL::text AS last_sync_summary,
        CASE
            WHEN (p.publisher = self.nickname) THEN self.metadatacleanuptime
            ELSE NULL::timestamp with time zone
        END AS metadatacleanuptime,
    NULL::integer AS partition_id,
    0 AS cleanedup_unsent_changes,
    NULL::text AS replica_version,
        CASE
            WHEN (p.publisher = self.nickname) THEN ( SELECT max(h.coldate) AS max
               FROM rowtide_merge."MSmerge_stored_genhistory" h
              WHERE (h.nickname = self.nickname))
            ELSE NULL::timestamp with time zone
        END AS last_makegeneration_datetime
   FROM (rowtide_merge.sysmerge_stored_publications p
     CROSS JOIN rowtide_merge."MSmerge_replinfo" self);


ALTER VIEW rowtide_merge.sysmergesubscriptions OWNER TO postgres;

--
-- Name: sysmergesubsetfilters; Type: VIEW; Schema: rowtide_merge; Owner: postgres
--

CREATE VIEW rowtide_merge.sysmergesubsetfilters AS
 SELECT ((a.name || '_'::text) || (e.value ->> 'parent'::text)) AS filtername,
    NULL::text AS join_filterid,
    a.pubid,
    NULL::text AS artid,
    a.nickname AS art_nickname,
    (e.value ->> 'parent'::text) AS join_articlename,
    ( SELECT o.nickname
           FROM rowtide_merge.sysmerge_stored_articles o
          WHERE ((o.pubid = a.pubid) AND (o.name = (e.value ->> 'parent'::text)))) AS join_nickname,
    COALESCE(
        CASE (e.value ->> 'unique_key'::text)
            WHEN 'true'::text THEN 1
            WHEN 'false'::text THEN 0
            ELSE ((e.value ->> 'unique_key'::text))::integer
        END, 0) AS join_unique_key,
    NULL::text AS expand_proc,
    (e.value ->> 'condition'::text) AS join_filterclause,
    COALESCE(
        CASE (e.value ->> 'filter_type'::text)
            WHEN 'true'::text THEN 1
            WHEN 'false'::text THEN 0
            ELSE ((e.value ->> 'filter_type'::text))::integer
        END, 1) AS filter_type
   FROM (rowtide_merge.sysmerge_stored_articles a
     CROSS JOIN LATERAL json_array_elements(((a.definition)::json -> 'join_filters'::text)) e(value));


ALTER VIEW rowtide_merge.sysmergesubsetfilters OWNER TO postgres;

--
-- Name: MSmerge_replinfo nickname; Type: DEFAULT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_replinfo" ALTER COLUMN nickname SET DEFAULT nextval('rowtide_merge."MSmerge_replinfo_nickname_seq"'::regclass);


--
-- Name: MSmerge_row_hashes batch; Type: DEFAULT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_row_hashes" ALTER COLUMN batch SET DEFAULT nextval('rowtide_merge."MSmerge_row_hashes_batch_seq"'::regclass);


--
-- Name: MSmerge_sessions session_id; Type: DEFAULT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_sessions" ALTER COLUMN session_id SET DEFAULT nextval('rowtide_merge."MSmerge_sessions_session_id_seq"'::regclass);


--
-- Name: MSmerge_stored_partition_groups partition_id; Type: DEFAULT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_stored_partition_groups" ALTER COLUMN partition_id SET DEFAULT nextval('rowtide_merge."MSmerge_stored_partition_groups_partition_id_seq"'::regclass);


--
-- Data for Name: hidden; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.hidden (id, region, rowguid) FROM stdin;
1	north	01a22801-7440-7e71-8fca-c01630f35e00
2	south	01a22801-7441-7f88-8fb4-674d9deeb700
\.


--
-- Data for Name: orders; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.orders (id, item, qty, rowguid) FROM stdin;
2	ink	\N	01a22801-73ab-7aa0-86f5-f88a966b6000
10	new	\N	01a22801-7554-7000-8000-d4e66bb27119
1	hub	30	01a22801-73aa-72a9-8d0e-ab4f4778e800
\.


--
-- Data for Name: MSmerge_articlehistory; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_articlehistory" (session_id, article, phase, inserts, updates, deletes, conflicts, rows_retried, duration) FROM stdin;
2	orders	1	1	0	0	1	0	0.026119454996660352
2	orders	2	0	1	1	0	0	0.010234041008516215
\.


--
-- Data for Name: MSmerge_conflicts_info; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_conflicts_info" (conflict_id, pubid, article, tablenick, rowguid, conflict_type, origin_datasource, origin_datasource_id, reason_code, reason_text, losing_row, winning_row, losing_lineage, parents, losing_columns, settled_row, replaced_row, resolved_with, "MSrepl_create_time", resolved_time) FROM stdin;
e87268f968d50bc5fbfd4c96e5e7e2b1	7f98fad4-2922-4c7a-99db-d1d4e02fd9e1	orders	647636972	01a22801-73aa-72a9-8d0e-ab4f4778e800	2	sqlite:///{folder}/merge_field.db	29099291411336	2	the same column was updated at both nodes	{"id": "1", "item": "field", "qty": "3"}	{"id": "1", "item": "hub", "qty": "3"}	\\x1a7734ed8388000000026c183706ea8000000001	\N	["item"]	\N	\N	\N	2026-11-29 15:51:53.98791+00	\N
\.


--
-- Data for Name: MSmerge_identity_range; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_identity_range" (subid, artid, range_begin, range_end, next_range_begin, next_range_end, is_pub_range, max_used, is_own) FROM stdin;
\.


--
-- Data for Name: MSmerge_log; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_log" (tablenick, rowguid, kind, stamp, columns, base, ordinal, key) FROM stdin;
647636972	01a22801-73aa-72a9-8d0e-ab4f4778e800	2	781	{f,f,t}	\N	\N	\N
\.


--
-- Data for Name: MSmerge_replinfo; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_replinfo" (nickname, created_at, place, purgedgen, metadatacleanuptime) FROM stdin;
118851258215040	2026-11-29 15:51:53.383229+00	7713621732150596111/16384	0	2026-11-29 15:51:53.383229+00
\.


--
-- Data for Name: MSmerge_retries; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_retries" (source, tablenick, rowguid, reason_code, reason_text, since) FROM stdin;
\.


--
-- Data for Name: MSmerge_row_hashes; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_row_hashes" (batch, tablenick, columns, entries) FROM stdin;
\.


--
-- Data for Name: MSmerge_sessions; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_sessions" (session_id, subid, start_time, duration, upload_time, download_time, runstatus, message) FROM stdin;
1	43febd22-fc5a-4410-89bb-6361fe169b41	2026-11-29 15:51:53.896469+00	0.028375046007568017	0.0011007340071955696	3.4141005016863346e-05	2	uploaded 0 rows, downloaded 0, 0 conflicts, 0 retried
2	43febd22-fc5a-4410-89bb-6361fe169b41	2026-11-29 15:51:53.969097+00	0.05850899399956688	0.027480377000756562	0.010402271000202745	2	uploaded 1 rows, downloaded 2, 1 conflicts, 0 retried
3	43febd22-fc5a-4410-89bb-6361fe169b41	2026-11-29 15:51:54.084423+00	0.022198612001375295	0.0008911329932743683	3.150699194520712e-05	2	uploaded 0 rows, downloaded 0, 0 conflicts, 0 retried
\.


--
-- Data for Name: MSmerge_stored_contents; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_stored_contents" (tablenick, rowguid, stamp, origin, priority, lineage, last, colv, own_columns, bases) FROM stdin;
647636972	01a22801-7554-7000-8000-d4e66bb27119	772	29099291411336	\N	\\x1a7734ed8388000000026c183706ea8000000001	\\x1a7734ed838800000002	\\x	\N	\N
647636972	01a22801-73aa-72a9-8d0e-ab4f4778e800	772	\N	\N	\\x1a7734ed8388000000026c183706ea8000000002	\N	\\x00016c183706ea8000000002	{NULL,772,NULL}	\N
\.


--
-- Data for Name: MSmerge_stored_genhistory; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_stored_genhistory" (nickname, generation, guidsrc, genstatus, snapshot, coldate) FROM stdin;
118851258215040	1	27794964-d62d-4b8d-bab1-9bf768566247	1	762:762:	2026-11-29 15:51:53.815104+00
29099291411336	1	a5342720-6f3f-4a04-88d9-c9a35e4129b2	2	\N	2026-11-29 15:51:53.91339+00
29099291411336	2	527d564e-b493-4275-b381-df36413118b1	2	\N	2026-11-29 15:51:53.98791+00
118851258215040	2	f5c15d80-49ed-4ecb-83dc-0c1b5bbac030	1	775:775:	2026-11-29 15:51:54.011854+00
29099291411336	3	865ebe22-0d38-4305-9d7c-2d82f759eed4	2	\N	2026-11-29 15:51:54.097027+00
\.


--
-- Data for Name: MSmerge_stored_partition_groups; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_stored_partition_groups" (partition_id, pubid, "HOST_NAME_FN", "SUSER_NAME_FN", is_explicit) FROM stdin;
1	7f98fad4-2922-4c7a-99db-d1d4e02fd9e1	\N	\N	f
\.


--
-- Data for Name: MSmerge_stored_partition_mappings; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_stored_partition_mappings" (replnickname, tablenick, rowguid, parent, generation, is_leaving) FROM stdin;
29099291411336	460270081	01a22801-7440-7e71-8fca-c01630f35e00	\N	1	f
\.


--
-- Data for Name: MSmerge_stored_tombstone; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_stored_tombstone" (tablenick, rowguid, stamp, type, origin, priority, lineage, last) FROM stdin;
647636972	01a22801-73ab-7567-807c-77ac4306d500	769	1	\N	\N	\N	\N
\.


--
-- Data for Name: MSsnapshotdeliveryprogress; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSsnapshotdeliveryprogress" (session_token, progress_token, progress_timestamp) FROM stdin;
\.


--
-- Data for Name: sysmerge_stored_articles; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge.sysmerge_stored_articles (pubid, name, nickname, processing_order, column_tracking, article_resolver, definition, purged_lineage, preserve_rowguidcol) FROM stdin;
7f98fad4-2922-4c7a-99db-d1d4e02fd9e1	hidden	460270081	0	f	priority	{"name": "hidden", "schema": "public", "table": "hidden", "nickname": 460270081, "columns": [{"name": "id", "type_text": "integer", "is_nullable": false, "key_ordinal": 1, "number": 1, "attnum": 1}, {"name": "region", "type_text": "character varying(10)", "is_nullable": true, "key_ordinal": null, "number": 2, "attnum": 2}], "processing_order": 0, "column_tracking": false, "resolver": "priority", "compensate_for_errors": false, "unique_columns": ["id"], "subset_filter": "region = 'north'", "join_filters": [], "partition_options": 0, "table_in_files": "", "last_number": 2, "table_id": "16390", "fingerprint": "b9d101547d8e1281987fa7dcf3fb641a 16390", "shape": "[]", "is_dropped": false, "vertical_partition": false, "record_conflict_detection": false, "record_conflict_resolution": false, "references": [], "renumber": false, "subscriber_upload_options": 0, "is_tracked": true, "identity_range": 0, "publisher_identity_range": 0, "threshold": 100, "on_unseen_children": "refuse"}	\\x	f
7f98fad4-2922-4c7a-99db-d1d4e02fd9e1	orders	647636972	1	t	priority	{"name": "orders", "schema": "public", "table": "orders", "nickname": 647636972, "columns": [{"name": "id", "type_text": "integer", "is_nullable": false, "key_ordinal": 1, "number": 1, "attnum": 1}, {"name": "item", "type_text": "character varying(20)", "is_nullable": true, "key_ordinal": null, "number": 2, "attnum": 2}, {"name": "qty", "type_text": "integer", "is_nullable": true, "key_ordinal": null, "number": 3, "attnum": 3}], "processing_order": 1, "column_tracking": true, "resolver": "priority", "compensate_for_errors": false, "unique_columns": ["id"], "subset_filter": null, "join_filters": [], "partition_options": 0, "table_in_files": "", "last_number": 3, "table_id": "16385", "fingerprint": "2f959250ec62b917f9eb613dd4cde4ed 16385", "shape": "[]", "is_dropped": false, "vertical_partition": false, "record_conflict_detection": false, "record_conflict_resolution": false, "references": [], "renumber": false, "subscriber_upload_options": 0, "is_tracked": true, "identity_range": 0, "publisher_identity_range": 0, "threshold": 100, "on_unseen_children": "refuse"}	\\x	f
\.


--
-- Data for Name: sysmerge_stored_publications; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge.sysmerge_stored_publications (pubid, name, publisher, retention, replicate_ddl, allow_partition_realignment, conflict_retention, run_as) FROM stdin;
7f98fad4-2922-4c7a-99db-d1d4e02fd9e1	shop	118851258215040	14	1	1	0	owner
\.


--
-- Data for Name: sysmerge_stored_subscriptions; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge.sysmerge_stored_subscriptions (subid, pubid, subscriber_server, replnickname, subscriber_type, priority, sentgen, recgen, replicastate, next_replicastate, session, settledgen, waitinggen, waitingpubgen, partition_id, last_sync_date, last_validated, attempted_validate, last_upload_date, last_download_date, last_sync_status, last_sync_summary, schemaversion, schemaguid) FROM stdin;
43febd22-fc5a-4410-89bb-6361fe169b41	7f98fad4-2922-4c7a-99db-d1d4e02fd9e1	sqlite:///{folder}/merge_field.db	29099291411336	2	0	2	3	cdd94f1aff3c6c1cea2c8c45c9f93489	\N	3	2	\N	\N	1	2026-11-29 15:51:54.106353+00	\N	\N	2026-11-29 15:51:54.106353+00	2026-11-29 15:51:54.106353+00	2	uploaded 0 rows, downloaded 0, 0 conflicts, 0 retried	2	3b645b58-3ec0-4b32-a601-29e3165e3053
\.


--
-- Data for Name: sysmergeschemachange; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge.sysmergeschemachange (pubid, schemaversion, schemaguid, article_name, column_number, schematype, schematext, schemastatus, created_at) FROM stdin;
7f98fad4-2922-4c7a-99db-d1d4e02fd9e1	1	3058f22c-53a1-4e4b-95b0-eda0edf74985	orders	\N	add article	add article public.orders	active	2026-11-29 15:51:53.561378+00
7f98fad4-2922-4c7a-99db-d1d4e02fd9e1	2	3b645b58-3ec0-4b32-a601-29e3165e3053	hidden	\N	add article	add article public.hidden	active	2026-11-29 15:51:53.713322+00
\.


--
-- Name: MSmerge_log_order; Type: SEQUENCE SET; Schema: rowtide_merge; Owner: postgres
--

SELECT pg_catalog.setval('rowtide_merge."MSmerge_log_order"', 1, false);


--
-- Name: MSmerge_replinfo_nickname_seq; Type: SEQUENCE SET; Schema: rowtide_merge; Owner: postgres
--

SELECT pg_catalog.setval('rowtide_merge."MSmerge_replinfo_nickname_seq"', 1, false);


--
-- Name: MSmerge_row_hashes_batch_seq; Type: SEQUENCE SET; Schema: rowtide_merge; Owner: postgres
--

SELECT pg_catalog.setval('rowtide_merge."MSmerge_row_hashes_batch_seq"', 1, false);


--
-- Name: MSmerge_sessions_session_id_seq; Type: SEQUENCE SET; Schema: rowtide_merge; Owner: postgres
--

SELECT pg_catalog.setval('rowtide_merge."MSmerge_sessions_session_id_seq"', 3, true);


--
-- Name: MSmerge_stored_partition_groups_partition_id_seq; Type: SEQUENCE SET; Schema: rowtide_merge; Owner: postgres
--

SELECT pg_catalog.setval('rowtide_merge."MSmerge_stored_partition_groups_partition_id_seq"', 1, true);


--
-- Name: hidden hidden_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.hidden
    ADD CONSTRAINT hidden_pkey PRIMARY KEY (id);


--
-- Name: orders orders_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.orders
    ADD CONSTRAINT orders_pkey PRIMARY KEY (id);


--
-- Name: MSmerge_articlehistory MSmerge_articlehistory_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_articlehistory"
    ADD CONSTRAINT "MSmerge_articlehistory_pkey" PRIMARY KEY (session_id, article, phase);


--
-- Name: MSmerge_conflicts_info MSmerge_conflicts_info_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_conflicts_info"
    ADD CONSTRAINT "MSmerge_conflicts_info_pkey" PRIMARY KEY (conflict_id);


--
-- Name: MSmerge_identity_range MSmerge_identity_range_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_identity_range"
    ADD CONSTRAINT "MSmerge_identity_range_pkey" PRIMARY KEY (subid, artid, is_pub_range);


--
-- Name: MSmerge_replinfo MSmerge_replinfo_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_replinfo"
    ADD CONSTRAINT "MSmerge_replinfo_pkey" PRIMARY KEY (nickname);


--
-- Name: MSmerge_retries MSmerge_retries_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_retries"
    ADD CONSTRAINT "MSmerge_retries_pkey" PRIMARY KEY (source, tablenick, rowguid);


--
-- Name: MSmerge_row_hashes MSmerge_row_hashes_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_row_hashes"
    ADD CONSTRAINT "MSmerge_row_hashes_pkey" PRIMARY KEY (batch);


--
-- Name: MSmerge_sessions MSmerge_sessions_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_sessions"
    ADD CONSTRAINT "MSmerge_sessions_pkey" PRIMARY KEY (session_id);


--
-- Name: MSmerge_stored_contents MSmerge_stored_contents_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_stored_contents"
    ADD CONSTRAINT "MSmerge_stored_contents_pkey" PRIMARY KEY (rowguid, tablenick);


--
-- Name: MSmerge_stored_genhistory MSmerge_stored_genhistory_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_stored_genhistory"
    ADD CONSTRAINT "MSmerge_stored_genhistory_pkey" PRIMARY KEY (nickname, generation);


--
-- Name: MSmerge_stored_partition_groups MSmerge_stored_partition_groups_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_stored_partition_groups"
    ADD CONSTRAINT "MSmerge_stored_partition_groups_pkey" PRIMARY KEY (partition_id);


--
-- Name: MSmerge_stored_partition_mappings MSmerge_stored_partition_mappings_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_stored_partition_mappings"
    ADD CONSTRAINT "MSmerge_stored_partition_mappings_pkey" PRIMARY KEY (replnickname, tablenick, rowguid);


--
-- Name: MSmerge_stored_tombstone MSmerge_stored_tombstone_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_stored_tombstone"
    ADD CONSTRAINT "MSmerge_stored_tombstone_pkey" PRIMARY KEY (rowguid, tablenick);


--
-- Name: MSsnapshotdeliveryprogress MSsnapshotdeliveryprogress_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSsnapshotdeliveryprogress"
    ADD CONSTRAINT "MSsnapshotdeliveryprogress_pkey" PRIMARY KEY (session_token, progress_token);


--
-- Name: sysmerge_stored_articles sysmerge_stored_articles_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge.sysmerge_stored_articles
    ADD CONSTRAINT sysmerge_stored_articles_pkey PRIMARY KEY (pubid, name);


--
-- Name: sysmerge_stored_publications sysmerge_stored_publications_name_key; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge.sysmerge_stored_publications
    ADD CONSTRAINT sysmerge_stored_publications_name_key UNIQUE (name);


--
-- Name: sysmerge_stored_publications sysmerge_stored_publications_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge.sysmerge_stored_publications
    ADD CONSTRAINT sysmerge_stored_publications_pkey PRIMARY KEY (pubid);


--
-- Name: sysmerge_stored_subscriptions sysmerge_stored_subscriptions_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge.sysmerge_stored_subscriptions
    ADD CONSTRAINT sysmerge_stored_subscriptions_pkey PRIMARY KEY (subid);


--
-- Name: sysmergeschemachange sysmergeschemachange_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge.sysmergeschemachange
    ADD CONSTRAINT sysmergeschemachange_pkey PRIMARY KEY (pubid, schemaversion);


--
-- Name: __sysRowguid_16385; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX "__sysRowguid_16385" ON public.orders USING btree (rowguid);


--
-- Name: __sysRowguid_16390; Type: INDEX; Schema: public; Owner: postgres
--

CREATE UNIQUE INDEX "__sysRowguid_16390" ON public.hidden USING btree (rowguid);


--
-- Name: MSmerge_contents_stamp; Type: INDEX; Schema: rowtide_merge; Owner: postgres
--

CREATE INDEX "MSmerge_contents_stamp" ON rowtide_merge."MSmerge_stored_contents" USING btree (stamp, ((tablenick + 0)));


--
-- Name: MSmerge_current_partition_mappings_leaving; Type: INDEX; Schema: rowtide_merge; Owner: postgres
--

CREATE INDEX "MSmerge_current_partition_mappings_leaving" ON rowtide_merge."MSmerge_stored_partition_mappings" USING btree (tablenick) WHERE is_leaving;


--
-- Name: MSmerge_current_partition_mappings_parent; Type: INDEX; Schema: rowtide_merge; Owner: postgres
--

CREATE INDEX "MSmerge_current_partition_mappings_parent" ON rowtide_merge."MSmerge_stored_partition_mappings" USING btree (parent, ((replnickname + 0)));


--
-- Name: MSmerge_genhistory_seen; Type: INDEX; Schema: rowtide_merge; Owner: postgres
--

CREATE INDEX "MSmerge_genhistory_seen" ON rowtide_merge."MSmerge_stored_genhistory" USING btree (((split_part(snapshot, ':'::text, 2))::bigint), generation) WHERE (snapshot IS NOT NULL);


--
-- Name: MSmerge_log_deleted; Type: INDEX; Schema: rowtide_merge; Owner: postgres
--

CREATE INDEX "MSmerge_log_deleted" ON rowtide_merge."MSmerge_log" USING btree (stamp, key) WHERE (kind = 3);


--
-- Name: MSmerge_tombstone_stamp; Type: INDEX; Schema: rowtide_merge; Owner: postgres
--

CREATE INDEX "MSmerge_tombstone_stamp" ON rowtide_merge."MSmerge_stored_tombstone" USING btree (stamp, ((tablenick + 0)));


--
-- Name: hidden MSmerge_again_460270081; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_again_460270081" BEFORE INSERT ON public.hidden FOR EACH ROW WHEN (((current_setting('rowtide.deleted_460270081'::text, true) = 'on'::text) AND ((current_setting('rowtide.merge_agent'::text, true) IS DISTINCT FROM 'on'::text) OR (pg_trigger_depth() > 0)))) EXECUTE FUNCTION rowtide_merge."MSmerge_again_460270081"();

ALTER TABLE public.hidden ENABLE ALWAYS TRIGGER "MSmerge_again_460270081";


--
-- Name: orders MSmerge_again_647636972; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_again_647636972" BEFORE INSERT ON public.orders FOR EACH ROW WHEN (((current_setting('rowtide.deleted_647636972'::text, true) = 'on'::text) AND ((current_setting('rowtide.merge_agent'::text, true) IS DISTINCT FROM 'on'::text) OR (pg_trigger_depth() > 0)))) EXECUTE FUNCTION rowtide_merge."MSmerge_again_647636972"();

ALTER TABLE public.orders ENABLE ALWAYS TRIGGER "MSmerge_again_647636972";


--
-- Name: hidden MSmerge_del_460270081; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_del_460270081" AFTER DELETE ON public.hidden REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT WHEN (((current_setting('rowtide.merge_agent'::text, true) IS DISTINCT FROM 'on'::text) OR (pg_trigger_depth() > 0))) EXECUTE FUNCTION rowtide_merge."MSmerge_del_460270081"();

ALTER TABLE public.hidden ENABLE ALWAYS TRIGGER "MSmerge_del_460270081";


--
-- Name: orders MSmerge_del_647636972; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_del_647636972" AFTER DELETE ON public.orders REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT WHEN (((current_setting('rowtide.merge_agent'::text, true) IS DISTINCT FROM 'on'::text) OR (pg_trigger_depth() > 0))) EXECUTE FUNCTION rowtide_merge."MSmerge_del_647636972"();

ALTER TABLE public.orders ENABLE ALWAYS TRIGGER "MSmerge_del_647636972";


--
-- Name: hidden MSmerge_ins_460270081; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_ins_460270081" AFTER INSERT ON public.hidden REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT WHEN (((current_setting('rowtide.merge_agent'::text, true) IS DISTINCT FROM 'on'::text) OR (pg_trigger_depth() > 0))) EXECUTE FUNCTION rowtide_merge."MSmerge_ins_460270081"();

ALTER TABLE public.hidden ENABLE ALWAYS TRIGGER "MSmerge_ins_460270081";


--
-- Name: orders MSmerge_ins_647636972; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_ins_647636972" AFTER INSERT ON public.orders REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT WHEN (((current_setting('rowtide.merge_agent'::text, true) IS DISTINCT FROM 'on'::text) OR (pg_trigger_depth() > 0))) EXECUTE FUNCTION rowtide_merge."MSmerge_ins_647636972"();

ALTER TABLE public.orders ENABLE ALWAYS TRIGGER "MSmerge_ins_647636972";


--
-- Name: hidden MSmerge_rowguid_460270081; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_rowguid_460270081" BEFORE UPDATE OF rowguid ON public.hidden FOR EACH ROW WHEN ((old.rowguid IS DISTINCT FROM new.rowguid)) EXECUTE FUNCTION rowtide_merge."MSmerge_rowguid_460270081"();

ALTER TABLE public.hidden ENABLE ALWAYS TRIGGER "MSmerge_rowguid_460270081";


--
-- Name: orders MSmerge_rowguid_647636972; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_rowguid_647636972" BEFORE UPDATE OF rowguid ON public.orders FOR EACH ROW WHEN ((old.rowguid IS DISTINCT FROM new.rowguid)) EXECUTE FUNCTION rowtide_merge."MSmerge_rowguid_647636972"();

ALTER TABLE public.orders ENABLE ALWAYS TRIGGER "MSmerge_rowguid_647636972";


--
-- Name: hidden MSmerge_trunc_460270081; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_trunc_460270081" BEFORE TRUNCATE ON public.hidden FOR EACH STATEMENT WHEN (((current_setting('rowtide.merge_agent'::text, true) IS DISTINCT FROM 'on'::text) OR (pg_trigger_depth() > 0))) EXECUTE FUNCTION rowtide_merge."MSmerge_trunc_460270081"();

ALTER TABLE public.hidden ENABLE ALWAYS TRIGGER "MSmerge_trunc_460270081";


--
-- Name: orders MSmerge_trunc_647636972; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_trunc_647636972" BEFORE TRUNCATE ON public.orders FOR EACH STATEMENT WHEN (((current_setting('rowtide.merge_agent'::text, true) IS DISTINCT FROM 'on'::text) OR (pg_trigger_depth() > 0))) EXECUTE FUNCTION rowtide_merge."MSmerge_trunc_647636972"();

ALTER TABLE public.orders ENABLE ALWAYS TRIGGER "MSmerge_trunc_647636972";


--
-- Name: hidden MSmerge_upd_460270081; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_upd_460270081" AFTER UPDATE ON public.hidden REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT WHEN (((current_setting('rowtide.merge_agent'::text, true) IS DISTINCT FROM 'on'::text) OR (pg_trigger_depth() > 0))) EXECUTE FUNCTION rowtide_merge."MSmerge_upd_460270081"();

ALTER TABLE public.hidden ENABLE ALWAYS TRIGGER "MSmerge_upd_460270081";


--
-- Name: orders MSmerge_upd_647636972; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_upd_647636972" AFTER UPDATE ON public.orders REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT WHEN (((current_setting('rowtide.merge_agent'::text, true) IS DISTINCT FROM 'on'::text) OR (pg_trigger_depth() > 0))) EXECUTE FUNCTION rowtide_merge."MSmerge_upd_647636972"();

ALTER TABLE public.orders ENABLE ALWAYS TRIGGER "MSmerge_upd_647636972";


--
-- Name: FUNCTION "MSmerge_again_460270081"(); Type: ACL; Schema: rowtide_merge; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_merge."MSmerge_again_460270081"() FROM PUBLIC;


--
-- Name: FUNCTION "MSmerge_again_647636972"(); Type: ACL; Schema: rowtide_merge; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_merge."MSmerge_again_647636972"() FROM PUBLIC;


--
-- Name: FUNCTION "MSmerge_del_460270081"(); Type: ACL; Schema: rowtide_merge; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_merge."MSmerge_del_460270081"() FROM PUBLIC;


--
-- Name: FUNCTION "MSmerge_del_647636972"(); Type: ACL; Schema: rowtide_merge; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_merge."MSmerge_del_647636972"() FROM PUBLIC;


--
-- Name: FUNCTION "MSmerge_ins_460270081"(); Type: ACL; Schema: rowtide_merge; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_merge."MSmerge_ins_460270081"() FROM PUBLIC;


--
-- Name: FUNCTION "MSmerge_ins_647636972"(); Type: ACL; Schema: rowtide_merge; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_merge."MSmerge_ins_647636972"() FROM PUBLIC;


--
-- Name: FUNCTION "MSmerge_rowguid_460270081"(); Type: ACL; Schema: rowtide_merge; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_merge."MSmerge_rowguid_460270081"() FROM PUBLIC;


--
-- Name: FUNCTION "MSmerge_rowguid_647636972"(); Type: ACL; Schema: rowtide_merge; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_merge."MSmerge_rowguid_647636972"() FROM PUBLIC;


--
-- Name: FUNCTION "MSmerge_trunc_460270081"(); Type: ACL; Schema: rowtide_merge; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_merge."MSmerge_trunc_460270081"() FROM PUBLIC;


--
-- Name: FUNCTION "MSmerge_trunc_647636972"(); Type: ACL; Schema: rowtide_merge; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_merge."MSmerge_trunc_647636972"() FROM PUBLIC;


--
-- Name: FUNCTION "MSmerge_upd_460270081"(); Type: ACL; Schema: rowtide_merge; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_merge."MSmerge_upd_460270081"() FROM PUBLIC;


--
-- Name: FUNCTION "MSmerge_upd_647636972"(); Type: ACL; Schema: rowtide_merge; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_merge."MSmerge_upd_647636972"() FROM PUBLIC;


--
-- PostgreSQL database dump complete
--


