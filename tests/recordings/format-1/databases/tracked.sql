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
-- Name: rowtide_tracking; Type: SCHEMA; Schema: -; Owner: postgres
--

CREATE SCHEMA rowtide_tracking;


ALTER SCHEMA rowtide_tracking OWNER TO postgres;

--
-- Name: bury_16682(); Type: FUNCTION; Schema: rowtide_tracking; Owner: postgres
--

CREATE FUNCTION rowtide_tracking.bury_16682() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$begin insert into rowtide_tracking."__sysOCSDeletedRows" ("__sysTN", "__sysDeleteTxBsn", "__sysInsertTxBsn", "__sysRK", "__sysTrackingContext") select 'public.in_row', (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint, (case when gone."__sysInsertTxBsn" is distinct from null then pg_catalog.format('%s', gone."__sysInsertTxBsn") end)::bigint, array[case when gone."id" is distinct from null then pg_catalog.format('%s', gone."id") end], (case when pg_catalog.current_setting('rowtide.tracking_context', true) operator(pg_catalog.<>) '' then pg_catalog.current_setting('rowtide.tracking_context', true) end)::uuid from gone; return null; end$$;


ALTER FUNCTION rowtide_tracking.bury_16682() OWNER TO postgres;

--
-- Name: bury_row_16682(); Type: FUNCTION; Schema: rowtide_tracking; Owner: postgres
--

CREATE FUNCTION rowtide_tracking.bury_row_16682() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$begin insert into rowtide_tracking."__sysOCSDeletedRows" ("__sysTN", "__sysDeleteTxBsn", "__sysInsertTxBsn", "__sysRK", "__sysTrackingContext") select 'public.in_row', (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint, (case when old."__sysInsertTxBsn" is distinct from null then pg_catalog.format('%s', old."__sysInsertTxBsn") end)::bigint, array[case when old."id" is distinct from null then pg_catalog.format('%s', old."id") end], (case when pg_catalog.current_setting('rowtide.tracking_context', true) operator(pg_catalog.<>) '' then pg_catalog.current_setting('rowtide.tracking_context', true) end)::uuid ; return null; end$$;


ALTER FUNCTION rowtide_tracking.bury_row_16682() OWNER TO postgres;

--
-- Name: delete_16748(); Type: FUNCTION; Schema: rowtide_tracking; Owner: postgres
--

CREATE FUNCTION rowtide_tracking.delete_16748() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$begin insert into rowtide_tracking."__sysOCSDeletedRows" ("__sysTN", "__sysDeleteTxBsn", "__sysInsertTxBsn", "__sysRK", "__sysTrackingContext") select 'public.in_side', (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint, (select "__sysInsertTxBsn" from "rowtide_tracking"."__sysRows_16748" where "__sysRK" = array[case when old."id" is distinct from null then pg_catalog.format('%s', old."id") end]), array[case when old."id" is distinct from null then pg_catalog.format('%s', old."id") end], (case when pg_catalog.current_setting('rowtide.tracking_context', true) operator(pg_catalog.<>) '' then pg_catalog.current_setting('rowtide.tracking_context', true) end)::uuid ; delete from "rowtide_tracking"."__sysRows_16748" where "__sysRK" = array[case when old."id" is distinct from null then pg_catalog.format('%s', old."id") end]; return null; end$$;


ALTER FUNCTION rowtide_tracking.delete_16748() OWNER TO postgres;

--
-- Name: insert_16748(); Type: FUNCTION; Schema: rowtide_tracking; Owner: postgres
--

CREATE FUNCTION rowtide_tracking.insert_16748() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$begin insert into "rowtide_tracking"."__sysRows_16748" as kept ("__sysRK", "__sysChangeTxBsn", "__sysInsertTxBsn", "__sysTrackingContext") values (array[case when new."id" is distinct from null then pg_catalog.format('%s', new."id") end], (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint, (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint, (case when pg_catalog.current_setting('rowtide.tracking_context', true) operator(pg_catalog.<>) '' then pg_catalog.current_setting('rowtide.tracking_context', true) end)::uuid) on conflict ("__sysRK") do update set "__sysChangeTxBsn" = excluded."__sysChangeTxBsn", "__sysInsertTxBsn" = excluded."__sysInsertTxBsn", "__sysTrackingContext" = excluded."__sysTrackingContext"; return null; end$$;


ALTER FUNCTION rowtide_tracking.insert_16748() OWNER TO postgres;

--
-- Name: key_16748(); Type: FUNCTION; Schema: rowtide_tracking; Owner: postgres
--

CREATE FUNCTION rowtide_tracking.key_16748() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$begin insert into rowtide_tracking."__sysOCSDeletedRows" ("__sysTN", "__sysDeleteTxBsn", "__sysInsertTxBsn", "__sysRK", "__sysTrackingContext") select 'public.in_side', (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint, (select "__sysInsertTxBsn" from "rowtide_tracking"."__sysRows_16748" where "__sysRK" = array[case when old."id" is distinct from null then pg_catalog.format('%s', old."id") end]), array[case when old."id" is distinct from null then pg_catalog.format('%s', old."id") end], (case when pg_catalog.current_setting('rowtide.tracking_context', true) operator(pg_catalog.<>) '' then pg_catalog.current_setting('rowtide.tracking_context', true) end)::uuid ; insert into "rowtide_tracking"."__sysRows_16748" as kept ("__sysRK", "__sysChangeTxBsn", "__sysInsertTxBsn", "__sysTrackingContext") values (array[case when new."id" is distinct from null then pg_catalog.format('%s', new."id") end], (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint, (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint, case when exists (select from "rowtide_tracking"."__sysRows_16748" s where s."__sysRK" = array[case when old."id" is distinct from null then pg_catalog.format('%s', old."id") end] and (case when pg_catalog.current_setting('rowtide.tracking_context', true) operator(pg_catalog.<>) '' then pg_catalog.current_setting('rowtide.tracking_context', true) end)::uuid is not null and nullif(pg_catalog.current_setting('rowtide.tracking_seen', true), '') is not null and s."__sysTrackingContext" is distinct from (case when pg_catalog.current_setting('rowtide.tracking_context', true) operator(pg_catalog.<>) '' then pg_catalog.current_setting('rowtide.tracking_context', true) end)::uuid and not pg_catalog.pg_visible_in_snapshot(s."__sysChangeTxBsn"::text::xid8, nullif(pg_catalog.current_setting('rowtide.tracking_seen', true), '')::pg_snapshot)) then '0b7e5e1c-5d0e-4f2b-8f6a-2f6c1a9d4e37' else (case when pg_catalog.current_setting('rowtide.tracking_context', true) operator(pg_catalog.<>) '' then pg_catalog.current_setting('rowtide.tracking_context', true) end)::uuid end) on conflict ("__sysRK") do update set "__sysChangeTxBsn" = excluded."__sysChangeTxBsn", "__sysInsertTxBsn" = excluded."__sysInsertTxBsn", "__sysTrackingContext" = excluded."__sysTrackingContext"; delete from "rowtide_tracking"."__sysRows_16748" where "__sysRK" = array[case when old."id" is distinct from null then pg_catalog.format('%s', old."id") end]; return null; end$$;


ALTER FUNCTION rowtide_tracking.key_16748() OWNER TO postgres;

--
-- Name: stamp_insert(); Type: FUNCTION; Schema: rowtide_tracking; Owner: postgres
--

CREATE FUNCTION rowtide_tracking.stamp_insert() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    -- A row that an update moves to another partition comes with the update's stamps, and keeps them.
    if (new."__sysChangeTxBsn" operator(pg_catalog.=) (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint) is not true or new."__sysInsertTxBsn" is null then
        new."__sysChangeTxBsn" := (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint;
        new."__sysInsertTxBsn" := (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint;
        new."__sysTrackingContext" := (case when pg_catalog.current_setting('rowtide.tracking_context', true) operator(pg_catalog.<>) '' then pg_catalog.current_setting('rowtide.tracking_context', true) end)::pg_catalog.uuid;
    end if;
    new."__sysTrackingContext" := coalesce(new."__sysTrackingContext", (case when pg_catalog.current_setting('rowtide.tracking_context', true) operator(pg_catalog.<>) '' then pg_catalog.current_setting('rowtide.tracking_context', true) end)::pg_catalog.uuid);
    return new;
end
$$;


ALTER FUNCTION rowtide_tracking.stamp_insert() OWNER TO postgres;

--
-- Name: stamp_key(); Type: FUNCTION; Schema: rowtide_tracking; Owner: postgres
--

CREATE FUNCTION rowtide_tracking.stamp_key() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    new."__sysInsertTxBsn" := case when tg_argv[0] operator(pg_catalog.=) 'insert' then (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint end;
    return new;
end
$$;


ALTER FUNCTION rowtide_tracking.stamp_key() OWNER TO postgres;

--
-- Name: stamp_update(); Type: FUNCTION; Schema: rowtide_tracking; Owner: postgres
--

CREATE FUNCTION rowtide_tracking.stamp_update() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
declare
    seen pg_catalog.text;
begin
    new."__sysChangeTxBsn" := (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint;
    new."__sysInsertTxBsn" := old."__sysInsertTxBsn";
    -- Few writers have a context: for the others nothing more is asked.
    if pg_catalog.current_setting('rowtide.tracking_context', true) operator(pg_catalog.<>) '' then
        new."__sysTrackingContext" := (case when pg_catalog.current_setting('rowtide.tracking_context', true) operator(pg_catalog.<>) '' then pg_catalog.current_setting('rowtide.tracking_context', true) end)::pg_catalog.uuid;
        seen := pg_catalog.current_setting('rowtide.tracking_seen', true);
        -- Whoever passes over rows with this context has not seen what somebody else did to the row.
        if seen operator(pg_catalog.<>) ''
            and (old."__sysTrackingContext" operator(pg_catalog.=) new."__sysTrackingContext") is not true
            and not pg_catalog.pg_visible_in_snapshot(
                old."__sysChangeTxBsn"::pg_catalog.text::pg_catalog.xid8, seen::pg_catalog.pg_snapshot)
        then
            new."__sysTrackingContext" := '0b7e5e1c-5d0e-4f2b-8f6a-2f6c1a9d4e37';
        end if;
    else
        new."__sysTrackingContext" := null;
    end if;
    return new;
end
$$;


ALTER FUNCTION rowtide_tracking.stamp_update() OWNER TO postgres;

--
-- Name: truncate_16682(); Type: FUNCTION; Schema: rowtide_tracking; Owner: postgres
--

CREATE FUNCTION rowtide_tracking.truncate_16682() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET row_security TO 'off'
    AS $$declare few boolean; rows text := pg_catalog.format('%I.%I', tg_table_schema, tg_table_name); begin if pg_catalog.current_setting('transaction_isolation') like 'read %' and not exists (
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
) then execute 'select count(*) <= 100000 from (select from ' || rows || ' limit 100001) t' into few; end if; if few then execute 'insert into rowtide_tracking."__sysOCSDeletedRows" ("__sysTN", "__sysDeleteTxBsn", "__sysInsertTxBsn", "__sysRK", "__sysTrackingContext") select ''public.in_row'', (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint, (case when gone."__sysInsertTxBsn" is distinct from null then pg_catalog.format(''%s'', gone."__sysInsertTxBsn") end)::bigint, array[case when gone."id" is distinct from null then pg_catalog.format(''%s'', gone."id") end], (case when pg_catalog.current_setting(''rowtide.tracking_context'', true) operator(pg_catalog.<>) '''' then pg_catalog.current_setting(''rowtide.tracking_context'', true) end)::uuid from ' || rows || ' gone'; else insert into rowtide_tracking."__sysTruncations" values ('public.in_row', (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint); end if; return null; end$$;


ALTER FUNCTION rowtide_tracking.truncate_16682() OWNER TO postgres;

--
-- Name: truncate_16748(); Type: FUNCTION; Schema: rowtide_tracking; Owner: postgres
--

CREATE FUNCTION rowtide_tracking.truncate_16748() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET row_security TO 'off'
    AS $$declare few boolean; rows text := pg_catalog.format('%I.%I', tg_table_schema, tg_table_name); begin if pg_catalog.current_setting('transaction_isolation') like 'read %' and not exists (
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
) then execute 'select count(*) <= 100000 from (select from ' || rows || ' limit 100001) t' into few; end if; if few then execute 'insert into rowtide_tracking."__sysOCSDeletedRows" ("__sysTN", "__sysDeleteTxBsn", "__sysInsertTxBsn", "__sysRK", "__sysTrackingContext") select ''public.in_side'', (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint, s."__sysInsertTxBsn", array[case when gone."id" is distinct from null then pg_catalog.format(''%s'', gone."id") end], (case when pg_catalog.current_setting(''rowtide.tracking_context'', true) operator(pg_catalog.<>) '''' then pg_catalog.current_setting(''rowtide.tracking_context'', true) end)::uuid from ' || rows || ' gone left join "rowtide_tracking"."__sysRows_16748" s on s."__sysRK" = array[case when gone."id" is distinct from null then pg_catalog.format(''%s'', gone."id") end]'; else insert into rowtide_tracking."__sysTruncations" values ('public.in_side', (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint); end if; delete from "rowtide_tracking"."__sysRows_16748"; return null; end$$;


ALTER FUNCTION rowtide_tracking.truncate_16748() OWNER TO postgres;

--
-- Name: update_16748(); Type: FUNCTION; Schema: rowtide_tracking; Owner: postgres
--

CREATE FUNCTION rowtide_tracking.update_16748() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$begin insert into "rowtide_tracking"."__sysRows_16748" as kept ("__sysRK", "__sysChangeTxBsn", "__sysInsertTxBsn", "__sysTrackingContext") values (array[case when new."id" is distinct from null then pg_catalog.format('%s', new."id") end], (pg_catalog.pg_current_xact_id()::pg_catalog.text)::bigint, null, (case when pg_catalog.current_setting('rowtide.tracking_context', true) operator(pg_catalog.<>) '' then pg_catalog.current_setting('rowtide.tracking_context', true) end)::uuid) on conflict ("__sysRK") do update set "__sysChangeTxBsn" = excluded."__sysChangeTxBsn", "__sysTrackingContext" = case when (case when pg_catalog.current_setting('rowtide.tracking_context', true) operator(pg_catalog.<>) '' then pg_catalog.current_setting('rowtide.tracking_context', true) end)::uuid is not null and nullif(pg_catalog.current_setting('rowtide.tracking_seen', true), '') is not null and kept."__sysTrackingContext" is distinct from (case when pg_catalog.current_setting('rowtide.tracking_context', true) operator(pg_catalog.<>) '' then pg_catalog.current_setting('rowtide.tracking_context', true) end)::uuid and not pg_catalog.pg_visible_in_snapshot(kept."__sysChangeTxBsn"::text::xid8, nullif(pg_catalog.current_setting('rowtide.tracking_seen', true), '')::pg_snapshot) then '0b7e5e1c-5d0e-4f2b-8f6a-2f6c1a9d4e37' else excluded."__sysTrackingContext" end; return null; end$$;


ALTER FUNCTION rowtide_tracking.update_16748() OWNER TO postgres;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: in_row; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.in_row (
    id integer NOT NULL,
    name text,
    qty integer,
    "__sysChangeTxBsn" bigint DEFAULT ((pg_current_xact_id())::text)::bigint,
    "__sysInsertTxBsn" bigint DEFAULT ((pg_current_xact_id())::text)::bigint,
    "__sysTrackingContext" uuid
);


ALTER TABLE public.in_row OWNER TO postgres;

--
-- Name: in_side; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.in_side (
    id integer NOT NULL,
    name text,
    qty integer
);


ALTER TABLE public.in_side OWNER TO postgres;

--
-- Name: __sysAnchors; Type: TABLE; Schema: rowtide_tracking; Owner: postgres
--

CREATE TABLE rowtide_tracking."__sysAnchors" (
    "__sysId" bigint NOT NULL,
    "__sysCsn" bigint NOT NULL,
    "__sysToken" text NOT NULL,
    "__sysSnapshot" pg_snapshot NOT NULL,
    "__sysIncarnation" text NOT NULL,
    "__sysTakenTime" timestamp with time zone DEFAULT now() NOT NULL
);


ALTER TABLE rowtide_tracking."__sysAnchors" OWNER TO postgres;

--
-- Name: __sysAnchors___sysId_seq; Type: SEQUENCE; Schema: rowtide_tracking; Owner: postgres
--

ALTER TABLE rowtide_tracking."__sysAnchors" ALTER COLUMN "__sysId" ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME rowtide_tracking."__sysAnchors___sysId_seq"
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: __sysOCSDeletedRows; Type: TABLE; Schema: rowtide_tracking; Owner: postgres
--

CREATE TABLE rowtide_tracking."__sysOCSDeletedRows" (
    "__sysTN" text NOT NULL,
    "__sysDeleteTxBsn" bigint NOT NULL,
    "__sysInsertTxBsn" bigint,
    "__sysRK" text[] NOT NULL,
    "__sysDeletedTime" timestamp with time zone DEFAULT now() NOT NULL,
    "__sysTrackingContext" uuid
);

ALTER TABLE ONLY rowtide_tracking."__sysOCSDeletedRows" REPLICA IDENTITY FULL;


ALTER TABLE rowtide_tracking."__sysOCSDeletedRows" OWNER TO postgres;

--
-- Name: __sysOCSTrackedObjects; Type: TABLE; Schema: rowtide_tracking; Owner: postgres
--

CREATE TABLE rowtide_tracking."__sysOCSTrackedObjects" (
    "__sysTN" text NOT NULL,
    "__sysTableId" oid NOT NULL,
    "__sysKeyType" text NOT NULL,
    "__sysOptions" integer NOT NULL,
    "__sysStorage" text NOT NULL,
    "__sysIndex" text NOT NULL,
    "__sysMinValidCsn" bigint NOT NULL,
    "__sysLostTime" timestamp with time zone,
    "__sysSignature" text NOT NULL,
    "__sysKey" text[] NOT NULL,
    "__sysParts" bigint[] NOT NULL
);


ALTER TABLE rowtide_tracking."__sysOCSTrackedObjects" OWNER TO postgres;

--
-- Name: __sysRows_16748; Type: TABLE; Schema: rowtide_tracking; Owner: postgres
--

CREATE TABLE rowtide_tracking."__sysRows_16748" (
    "__sysRK" text[] NOT NULL,
    "__sysChangeTxBsn" bigint,
    "__sysInsertTxBsn" bigint,
    "__sysTrackingContext" uuid
);


ALTER TABLE rowtide_tracking."__sysRows_16748" OWNER TO postgres;

--
-- Name: __sysTruncations; Type: TABLE; Schema: rowtide_tracking; Owner: postgres
--

CREATE TABLE rowtide_tracking."__sysTruncations" (
    "__sysTN" text NOT NULL,
    "__sysTruncateTxBsn" bigint NOT NULL
);

ALTER TABLE ONLY rowtide_tracking."__sysTruncations" REPLICA IDENTITY FULL;


ALTER TABLE rowtide_tracking."__sysTruncations" OWNER TO postgres;

--
-- Name: __sysTxCommitSequence; Type: TABLE; Schema: rowtide_tracking; Owner: postgres
--

CREATE TABLE rowtide_tracking."__sysTxCommitSequence" (
    "__sysTxBsn" bigint NOT NULL,
    "__sysTxCsn" bigint NOT NULL,
    "__sysCommitTime" timestamp with time zone NOT NULL
);


ALTER TABLE rowtide_tracking."__sysTxCommitSequence" OWNER TO postgres;

--
-- Name: rowtide_format; Type: VIEW; Schema: rowtide_tracking; Owner: postgres
--

CREATE VIEW rowtide_tracking.rowtide_format AS
 SELECT 1 AS number,
    1 AS least_reader,
    1 AS least_writer;


ALTER VIEW rowtide_tracking.rowtide_format OWNER TO postgres;

--
-- Data for Name: in_row; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.in_row (id, name, qty, "__sysChangeTxBsn", "__sysInsertTxBsn", "__sysTrackingContext") FROM stdin;
1	one	10	797	\N	\N
4	four	4	799	799	\N
\.


--
-- Data for Name: in_side; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.in_side (id, name, qty) FROM stdin;
3	three	3
1	one	10
4	four	4
\.


--
-- Data for Name: __sysAnchors; Type: TABLE DATA; Schema: rowtide_tracking; Owner: postgres
--

COPY rowtide_tracking."__sysAnchors" ("__sysId", "__sysCsn", "__sysToken", "__sysSnapshot", "__sysIncarnation", "__sysTakenTime") FROM stdin;
1	795	638243bda3edd84862400ff467788a45	796:796:	7713621732150596111/16681	2026-11-29 15:51:54.652752+00
\.


--
-- Data for Name: __sysOCSDeletedRows; Type: TABLE DATA; Schema: rowtide_tracking; Owner: postgres
--

COPY rowtide_tracking."__sysOCSDeletedRows" ("__sysTN", "__sysDeleteTxBsn", "__sysInsertTxBsn", "__sysRK", "__sysDeletedTime", "__sysTrackingContext") FROM stdin;
public.in_row	795	\N	{3}	2026-11-29 15:51:54.644713+00	\N
public.in_row	798	\N	{2}	2026-11-29 15:51:54.68624+00	\N
public.in_side	801	\N	{2}	2026-11-29 15:51:54.687492+00	\N
\.


--
-- Data for Name: __sysOCSTrackedObjects; Type: TABLE DATA; Schema: rowtide_tracking; Owner: postgres
--

COPY rowtide_tracking."__sysOCSTrackedObjects" ("__sysTN", "__sysTableId", "__sysKeyType", "__sysOptions", "__sysStorage", "__sysIndex", "__sysMinValidCsn", "__sysLostTime", "__sysSignature", "__sysKey", "__sysParts") FROM stdin;
public.in_row	16682	primary-key	7	row	brin	0	\N	8afe043fa55aa4c73b79d5189915f6e8	{id}	{}
public.in_side	16748	primary-key	7	side	brin	0	\N	5bdbdbd8a72d612b926ea8449a0991e3	{id}	{}
\.


--
-- Data for Name: __sysRows_16748; Type: TABLE DATA; Schema: rowtide_tracking; Owner: postgres
--

COPY rowtide_tracking."__sysRows_16748" ("__sysRK", "__sysChangeTxBsn", "__sysInsertTxBsn", "__sysTrackingContext") FROM stdin;
{1}	800	\N	\N
{4}	802	802	\N
\.


--
-- Data for Name: __sysTruncations; Type: TABLE DATA; Schema: rowtide_tracking; Owner: postgres
--

COPY rowtide_tracking."__sysTruncations" ("__sysTN", "__sysTruncateTxBsn") FROM stdin;
\.


--
-- Data for Name: __sysTxCommitSequence; Type: TABLE DATA; Schema: rowtide_tracking; Owner: postgres
--

COPY rowtide_tracking."__sysTxCommitSequence" ("__sysTxBsn", "__sysTxCsn", "__sysCommitTime") FROM stdin;
\.


--
-- Name: __sysAnchors___sysId_seq; Type: SEQUENCE SET; Schema: rowtide_tracking; Owner: postgres
--

SELECT pg_catalog.setval('rowtide_tracking."__sysAnchors___sysId_seq"', 1, true);


--
-- Name: in_row in_row_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.in_row
    ADD CONSTRAINT in_row_pkey PRIMARY KEY (id);


--
-- Name: in_side in_side_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.in_side
    ADD CONSTRAINT in_side_pkey PRIMARY KEY (id);


--
-- Name: __sysAnchors __sysAnchors___sysToken_key; Type: CONSTRAINT; Schema: rowtide_tracking; Owner: postgres
--

ALTER TABLE ONLY rowtide_tracking."__sysAnchors"
    ADD CONSTRAINT "__sysAnchors___sysToken_key" UNIQUE ("__sysToken");


--
-- Name: __sysAnchors __sysAnchors_pkey; Type: CONSTRAINT; Schema: rowtide_tracking; Owner: postgres
--

ALTER TABLE ONLY rowtide_tracking."__sysAnchors"
    ADD CONSTRAINT "__sysAnchors_pkey" PRIMARY KEY ("__sysId");


--
-- Name: __sysOCSTrackedObjects __sysOCSTrackedObjects___sysTableId_key; Type: CONSTRAINT; Schema: rowtide_tracking; Owner: postgres
--

ALTER TABLE ONLY rowtide_tracking."__sysOCSTrackedObjects"
    ADD CONSTRAINT "__sysOCSTrackedObjects___sysTableId_key" UNIQUE ("__sysTableId");


--
-- Name: __sysOCSTrackedObjects __sysOCSTrackedObjects_pkey; Type: CONSTRAINT; Schema: rowtide_tracking; Owner: postgres
--

ALTER TABLE ONLY rowtide_tracking."__sysOCSTrackedObjects"
    ADD CONSTRAINT "__sysOCSTrackedObjects_pkey" PRIMARY KEY ("__sysTN");


--
-- Name: __sysRows_16748 __sysRows_16748_pkey; Type: CONSTRAINT; Schema: rowtide_tracking; Owner: postgres
--

ALTER TABLE ONLY rowtide_tracking."__sysRows_16748"
    ADD CONSTRAINT "__sysRows_16748_pkey" PRIMARY KEY ("__sysRK");


--
-- Name: __sysTxCommitSequence __sysTxCommitSequence___sysTxCsn_key; Type: CONSTRAINT; Schema: rowtide_tracking; Owner: postgres
--

ALTER TABLE ONLY rowtide_tracking."__sysTxCommitSequence"
    ADD CONSTRAINT "__sysTxCommitSequence___sysTxCsn_key" UNIQUE ("__sysTxCsn");


--
-- Name: __sysTxCommitSequence __sysTxCommitSequence_pkey; Type: CONSTRAINT; Schema: rowtide_tracking; Owner: postgres
--

ALTER TABLE ONLY rowtide_tracking."__sysTxCommitSequence"
    ADD CONSTRAINT "__sysTxCommitSequence_pkey" PRIMARY KEY ("__sysTxBsn");


--
-- Name: __sysChanges_16682; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX "__sysChanges_16682" ON public.in_row USING brin ("__sysChangeTxBsn") WITH (autosummarize='on');


--
-- Name: __sysChanges_16748; Type: INDEX; Schema: rowtide_tracking; Owner: postgres
--

CREATE INDEX "__sysChanges_16748" ON rowtide_tracking."__sysRows_16748" USING brin ("__sysChangeTxBsn") WITH (autosummarize='on');


--
-- Name: __sysOCSDeletedRows_bsn; Type: INDEX; Schema: rowtide_tracking; Owner: postgres
--

CREATE INDEX "__sysOCSDeletedRows_bsn" ON rowtide_tracking."__sysOCSDeletedRows" USING brin ("__sysDeleteTxBsn") WITH (pages_per_range='16', autosummarize='on');


--
-- Name: in_row __sysTracking_delete; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "__sysTracking_delete" AFTER DELETE ON public.in_row REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION rowtide_tracking.bury_16682();

ALTER TABLE public.in_row ENABLE ALWAYS TRIGGER "__sysTracking_delete";


--
-- Name: in_side __sysTracking_delete; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "__sysTracking_delete" AFTER DELETE ON public.in_side FOR EACH ROW EXECUTE FUNCTION rowtide_tracking.delete_16748();

ALTER TABLE public.in_side ENABLE ALWAYS TRIGGER "__sysTracking_delete";


--
-- Name: in_row __sysTracking_insert; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "__sysTracking_insert" BEFORE INSERT ON public.in_row FOR EACH ROW WHEN (((new."__sysChangeTxBsn" IS DISTINCT FROM ((pg_current_xact_id())::text)::bigint) OR (
        CASE
            WHEN (current_setting('rowtide.tracking_context'::text, true) <> ''::text) THEN current_setting('rowtide.tracking_context'::text, true)
            ELSE NULL::text
        END IS NOT NULL))) EXECUTE FUNCTION rowtide_tracking.stamp_insert();

ALTER TABLE public.in_row ENABLE ALWAYS TRIGGER "__sysTracking_insert";


--
-- Name: in_side __sysTracking_insert; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "__sysTracking_insert" AFTER INSERT ON public.in_side FOR EACH ROW EXECUTE FUNCTION rowtide_tracking.insert_16748();

ALTER TABLE public.in_side ENABLE ALWAYS TRIGGER "__sysTracking_insert";


--
-- Name: in_row __sysTracking_key; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "__sysTracking_key" AFTER UPDATE ON public.in_row FOR EACH ROW WHEN ((old.id <> new.id)) EXECUTE FUNCTION rowtide_tracking.bury_row_16682();

ALTER TABLE public.in_row ENABLE ALWAYS TRIGGER "__sysTracking_key";


--
-- Name: in_side __sysTracking_key; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "__sysTracking_key" AFTER UPDATE ON public.in_side FOR EACH ROW WHEN ((old.id <> new.id)) EXECUTE FUNCTION rowtide_tracking.key_16748();

ALTER TABLE public.in_side ENABLE ALWAYS TRIGGER "__sysTracking_key";


--
-- Name: in_row __sysTracking_truncate; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "__sysTracking_truncate" BEFORE TRUNCATE ON public.in_row FOR EACH STATEMENT EXECUTE FUNCTION rowtide_tracking.truncate_16682();

ALTER TABLE public.in_row ENABLE ALWAYS TRIGGER "__sysTracking_truncate";


--
-- Name: in_side __sysTracking_truncate; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "__sysTracking_truncate" BEFORE TRUNCATE ON public.in_side FOR EACH STATEMENT EXECUTE FUNCTION rowtide_tracking.truncate_16748();

ALTER TABLE public.in_side ENABLE ALWAYS TRIGGER "__sysTracking_truncate";


--
-- Name: in_row __sysTracking_update; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "__sysTracking_update" BEFORE UPDATE ON public.in_row FOR EACH ROW EXECUTE FUNCTION rowtide_tracking.stamp_update();

ALTER TABLE public.in_row ENABLE ALWAYS TRIGGER "__sysTracking_update";


--
-- Name: in_side __sysTracking_update; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "__sysTracking_update" AFTER UPDATE ON public.in_side FOR EACH ROW WHEN ((NOT (old.id <> new.id))) EXECUTE FUNCTION rowtide_tracking.update_16748();

ALTER TABLE public.in_side ENABLE ALWAYS TRIGGER "__sysTracking_update";


--
-- Name: in_row __sysTracking_update_key; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "__sysTracking_update_key" BEFORE UPDATE ON public.in_row FOR EACH ROW WHEN ((old.id <> new.id)) EXECUTE FUNCTION rowtide_tracking.stamp_key('insert');

ALTER TABLE public.in_row ENABLE ALWAYS TRIGGER "__sysTracking_update_key";


--
-- Name: FUNCTION bury_16682(); Type: ACL; Schema: rowtide_tracking; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_tracking.bury_16682() FROM PUBLIC;


--
-- Name: FUNCTION bury_row_16682(); Type: ACL; Schema: rowtide_tracking; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_tracking.bury_row_16682() FROM PUBLIC;


--
-- Name: FUNCTION delete_16748(); Type: ACL; Schema: rowtide_tracking; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_tracking.delete_16748() FROM PUBLIC;


--
-- Name: FUNCTION insert_16748(); Type: ACL; Schema: rowtide_tracking; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_tracking.insert_16748() FROM PUBLIC;


--
-- Name: FUNCTION key_16748(); Type: ACL; Schema: rowtide_tracking; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_tracking.key_16748() FROM PUBLIC;


--
-- Name: FUNCTION truncate_16682(); Type: ACL; Schema: rowtide_tracking; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_tracking.truncate_16682() FROM PUBLIC;


--
-- Name: FUNCTION truncate_16748(); Type: ACL; Schema: rowtide_tracking; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_tracking.truncate_16748() FROM PUBLIC;


--
-- Name: FUNCTION update_16748(); Type: ACL; Schema: rowtide_tracking; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_tracking.update_16748() FROM PUBLIC;


--
-- PostgreSQL database dump complete
--


