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
-- Name: announce_truncate(); Type: FUNCTION; Schema: cdc; Owner: postgres
--

CREATE FUNCTION cdc.announce_truncate() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
declare
    others text := current_setting('rowtide.truncating', true);
begin
    perform set_config('rowtide.truncating',
        case tg_when when 'BEFORE' then concat_ws(' ', others, tg_relid::bigint) else '' end, true);
    return null;
end $$;


ALTER FUNCTION cdc.announce_truncate() OWNER TO postgres;

--
-- Name: refuse_partition_truncate(); Type: FUNCTION; Schema: cdc; Owner: postgres
--

CREATE FUNCTION cdc.refuse_partition_truncate() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
begin
    if exists (select from pg_partition_ancestors(tg_relid) where relid = tg_argv[1]::oid)
       and not tg_argv[1] = any(string_to_array(coalesce(current_setting('rowtide.truncating', true), ''), ' '))
    then
        raise exception using
            errcode = 'feature_not_supported',
            message = format('RT-4711: partition %I.%I of a captured table cannot be truncated by itself',
                tg_table_schema, tg_table_name),
            hint = format('Delete its rows, detach it, truncate the whole table, or disable capture instance %s.',
                tg_argv[0]);
    end if;
    return null;
end $$;


ALTER FUNCTION cdc.refuse_partition_truncate() OWNER TO postgres;

--
-- Name: refuse_truncate(); Type: FUNCTION; Schema: cdc; Owner: postgres
--

CREATE FUNCTION cdc.refuse_truncate() RETURNS trigger
    LANGUAGE plpgsql
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
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    altered record;
    rewritten text[] := string_to_array(current_setting('rowtide.rewritten', true), ' ');
begin
    for altered in
        select distinct c.oid, n.nspname, c.relname
        from pg_event_trigger_ddl_commands() d
        join pg_class c on d.classid = 'pg_class'::regclass and c.oid = d.objid
                        or d.classid = 'pg_namespace'::regclass and c.relnamespace = d.objid
        join pg_namespace n on n.oid = c.relnamespace
        join pg_publication_rel r on r.prrelid = c.oid
        join pg_publication p on p.oid = r.prpubid
        join pg_database here on here.datname = current_database()
        where p.pubname = 'rowtide_' || here.oid
        order by c.oid
    loop
        perform pg_logical_emit_message(true, 'rowtide.ddl', convert_to(json_build_object(
            'source_id', altered.oid::bigint,
            'schema', altered.nspname,
            'table', altered.relname,
            'command', tg_tag,
            'statement', left(coalesce(current_query(), ''), 10000),
            'rewrites_values', coalesce(altered.oid::bigint::text = any(rewritten), false),
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
                    'default', (select pg_get_expr(f.adbin, f.adrelid) from pg_attrdef f
                                where f.adrelid = a.attrelid and f.adnum = a.attnum)
                ) order by a.attnum), '[]')
                from pg_attribute a
                where a.attrelid = altered.oid and a.attnum > 0 and not a.attisdropped)
        )::text, 'UTF8'));
        perform pg_logical_emit_message(false, 'rowtide.spacer', '');
    end loop;
    perform set_config('rowtide.rewritten', '', true);
exception when others then
    raise warning 'rowtide: what was done to a captured table is not in the log: %', sqlerrm;
end $$;


ALTER FUNCTION rowtide.rowtide_announce_ddl() OWNER TO postgres;

--
-- Name: rowtide_announce_drop(); Type: FUNCTION; Schema: rowtide; Owner: postgres
--

CREATE FUNCTION rowtide.rowtide_announce_drop() RETURNS event_trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
declare
    gone record;
begin
    for gone in
        delete from rowtide.members m using pg_event_trigger_dropped_objects() d
        where d.classid = 'pg_class'::regclass and d.objsubid = 0 and m.source_table_id = d.objid::bigint
        returning m.member_id, m.source_table_id
    loop
        delete from rowtide.identities where source_table_id = gone.source_table_id;
        perform pg_logical_emit_message(true, 'rowtide.disable', convert_to(
            json_build_object('member_id', gone.member_id)::text, 'UTF8'));
    end loop;
exception when others then
    raise warning 'rowtide: what was done to a captured table is not in the log: %', sqlerrm;
end $$;


ALTER FUNCTION rowtide.rowtide_announce_drop() OWNER TO postgres;

--
-- Name: rowtide_note_rewrite(); Type: FUNCTION; Schema: rowtide; Owner: postgres
--

CREATE FUNCTION rowtide.rowtide_note_rewrite() RETURNS event_trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
begin
    if pg_event_trigger_table_rewrite_reason() & 4 <> 0 then
        perform set_config('rowtide.rewritten', concat_ws(' ', current_setting('rowtide.rewritten', true), (
            select string_agg(above.oid::bigint::text, ' ')
            from (select pg_event_trigger_table_rewrite_oid() as oid
                  union select relid from pg_partition_ancestors(pg_event_trigger_table_rewrite_oid())) above)), true);
    end if;
exception when others then
    raise warning 'rowtide: what was done to a captured table is not in the log: %', sqlerrm;
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

COMMENT ON COLUMN cdc.consumer_instances.member_id IS 'the instance''s: one that is enabled anew is another';


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
    failed_sessions_count bigint NOT NULL
);


ALTER TABLE cdc.log_scan_sessions OWNER TO postgres;

--
-- Name: COLUMN log_scan_sessions.session_id; Type: COMMENT; Schema: cdc; Owner: postgres
--

COMMENT ON COLUMN cdc.log_scan_sessions.session_id IS '0: the sum of all';


--
-- Name: again; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.again (
    id integer NOT NULL,
    name text,
    added integer
);

ALTER TABLE ONLY public.again REPLICA IDENTITY FULL;


ALTER TABLE public.again OWNER TO postgres;

--
-- Name: bare; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.bare (
    id integer,
    name text
);

ALTER TABLE ONLY public.bare REPLICA IDENTITY FULL;


ALTER TABLE public.bare OWNER TO postgres;

--
-- Name: moments; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.moments (
    id integer NOT NULL,
    at timestamp without time zone,
    seen timestamp with time zone,
    born date,
    during interval
);

ALTER TABLE ONLY public.moments REPLICA IDENTITY FULL;


ALTER TABLE public.moments OWNER TO postgres;

--
-- Name: notes; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.notes (
    id integer NOT NULL,
    title text,
    body text
);
ALTER TABLE ONLY public.notes ALTER COLUMN body SET STORAGE EXTERNAL;


ALTER TABLE public.notes OWNER TO postgres;

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
    article text,
    qty integer
);

ALTER TABLE ONLY public.orders REPLICA IDENTITY FULL;


ALTER TABLE public.orders OWNER TO postgres;

--
-- Name: readings; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.readings (
    id integer NOT NULL,
    n integer,
    price numeric(12,3),
    day date
);

ALTER TABLE ONLY public.readings REPLICA IDENTITY FULL;


ALTER TABLE public.readings OWNER TO postgres;

--
-- Name: ticks; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.ticks (
    id integer NOT NULL
);

ALTER TABLE ONLY public.ticks REPLICA IDENTITY FULL;


ALTER TABLE public.ticks OWNER TO postgres;

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
-- Name: source; Type: TABLE; Schema: rowtide; Owner: postgres
--

CREATE TABLE rowtide.source (
    source_id text NOT NULL,
    system_identifier text NOT NULL,
    publication text NOT NULL,
    publication_id bigint NOT NULL,
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
-- Name: identities source_table_id; Type: DEFAULT; Schema: rowtide; Owner: postgres
--

ALTER TABLE ONLY rowtide.identities ALTER COLUMN source_table_id SET DEFAULT nextval('rowtide.identities_source_table_id_seq'::regclass);


--
-- Data for Name: captured_columns; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.captured_columns (object_id, column_name, column_id, column_type, column_ordinal, is_computed) FROM stdin;
1	id	1	integer	1	f
1	item	2	text	2	f
1	qty	3	integer	3	f
2	id	1	integer	1	f
2	n	2	smallint	2	f
2	price	3	numeric(8,2)	3	f
2	day	4	date	4	f
3	id	1	integer	1	f
3	at	2	timestamp without time zone	2	f
3	seen	3	timestamp with time zone	3	f
3	born	4	date	4	f
3	during	5	interval	5	f
5	id	1	integer	1	f
6	id	1	integer	1	f
6	name	2	text	2	f
7	id	1	integer	1	f
7	a, b	2	text	2	f
7	per cent %	3	integer	3	f
7	größe=	4	text	4	f
8	id	1	integer	1	f
8	title	2	text	2	f
8	body	3	text	3	f
9	id	1	integer	1	f
9	qty	3	integer	2	f
10	id	1	integer	1	f
10	name	2	text	2	f
10	added	3	integer	3	f
\.


--
-- Data for Name: cdc_jobs; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.cdc_jobs (job_id, job_type, job_name, maxtrans, maxscans, continuous, pollinginterval, retention, threshold, schedule, created_at) FROM stdin;
3e304ea1-05a7-47da-a496-521a00aa8bbe	cleanup	cdc.captured_cleanup	\N	\N	\N	\N	10080	1000	0 2 * * *	2026-11-25 08:23:42.252364+00
d90b89be-8430-413b-a2ff-25757623b922	capture	cdc.captured_capture	700	\N	t	2	\N	\N	\N	2026-11-25 08:23:42.252364+00
\.


--
-- Data for Name: change_tables; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.change_tables (object_id, version, source_object_id, capture_instance, start_lsn, end_lsn, supports_net_changes, has_drop_pending, role_name, index_name, create_date, member_id, refuses_truncate, before_images) FROM stdin;
1	0	16897	public_orders	\N	\N	t	f	\N	orders_pkey	2026-11-25 08:23:42.252364+00	f6d55714-f96f-4964-904d-37e6ec134ecf	f	full
2	0	16911	public_readings	\N	\N	t	f	\N	readings_pkey	2026-11-25 08:23:42.363678+00	a68d8910-d801-4f86-a28d-b2af6b0ca24d	f	full
3	0	16916	public_moments	\N	\N	t	f	\N	moments_pkey	2026-11-25 08:23:42.424025+00	e78dc0e9-6fda-4976-95d7-45e5805d76d8	f	full
5	0	16935	public_ticks	\N	\N	t	f	\N	ticks_pkey	2026-11-25 08:23:42.597106+00	246dbc76-c637-44e4-882f-5f637b7d73e6	f	full
6	0	16940	public_bare	\N	\N	f	f	\N	\N	2026-11-25 08:23:42.68218+00	118206c3-d829-4a5b-800d-a607dce836d8	f	full
7	0	16904	odd	\N	\N	t	f	\N	odd, table_pkey	2026-11-25 08:23:42.749713+00	84d056d2-ec4d-4df3-b11c-59ae8de8457d	f	full
8	0	16921	public_notes	\N	\N	t	f	\N	notes_pkey	2026-11-25 08:23:42.830238+00	b5f0bca3-addc-4fe8-a9f3-a628c8af3ec8	f	key
9	0	16897	orders_part	\N	\N	t	f	reporter	orders_pkey	2026-11-25 08:23:42.895988+00	1c4921d6-06e2-427d-babe-d31c077624e5	f	full
10	0	16928	public_again	\N	\N	t	f	\N	again_pkey	2026-11-25 08:24:32.401206+00	d8cfc3c7-ba40-481a-a34f-5c5eba76e946	f	full
\.


--
-- Data for Name: cleanup_requests; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.cleanup_requests (request_id, capture_instance, low_water_mark, retention_us, is_forced, requested_at, requested_by, finished_at, outcome) FROM stdin;
1	public_ticks	44260392	259200000000	t	2026-11-25 08:25:21.84753+00	postgres	2026-11-25 08:26:07.39343+00	{"cleaned":[{"name":"public_ticks","low":"0/2A35C28","removed_rows":2,"failure":null}],"refusal":null,"values":[],"notes":[]}
\.


--
-- Data for Name: consumer_instances; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.consumer_instances (consumer_name, capture_instance, member_id) FROM stdin;
warehouse	public_orders	f6d55714-f96f-4964-904d-37e6ec134ecf
warehouse	orders_part	1c4921d6-06e2-427d-babe-d31c077624e5
\.


--
-- Data for Name: consumers; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.consumers (consumer_name, limit_hours, role_name, acknowledged_lsn, acknowledged_time, acknowledged_at, created_at) FROM stdin;
warehouse	72	reporter	44316592	2026-11-25 08:25:06.713312+00	2026-11-25 08:26:31.098057+00	2026-11-25 08:26:31.013924+00
\.


--
-- Data for Name: index_columns; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.index_columns (object_id, column_name, index_ordinal, column_id) FROM stdin;
1	id	1	1
2	id	1	1
3	id	1	1
5	id	1	1
7	id	1	1
8	id	1	1
9	id	1	1
10	id	1	1
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

COPY cdc.log_scan_sessions (session_id, start_time, end_time, duration, scan_phase, error_count, start_lsn, current_lsn, end_lsn, tran_count, last_commit_lsn, last_commit_time, log_record_count, schema_change_count, command_count, first_begin_cdc_lsn, last_commit_cdc_lsn, last_commit_cdc_time, latency, empty_scan_count, failed_sessions_count) FROM stdin;
\.


--
-- Data for Name: again; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.again (id, name, added) FROM stdin;
1	before	\N
2	after	5
\.


--
-- Data for Name: bare; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.bare (id, name) FROM stdin;
\.


--
-- Data for Name: moments; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.moments (id, at, seen, born, during) FROM stdin;
1	2026-03-29 02:30:00.000001	2026-03-29 00:30:00+00	0044-03-15	1 mon
\.


--
-- Data for Name: notes; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.notes (id, title, body) FROM stdin;
1	second	c4ca4238a0b923820dcc509a6f75849bc81e728d9d4c2f636f067f89cc14862ceccbc87e4b5ce2fe28308fd9f2a7baf3a87ff679a2f3e71d9181a67b7542122ce4da3b7fbbce2345d7772b0674a318d51679091c5a880faf6fb5e6087eb1b2dc8f14e45fceea167a5a36dedd4bea2543c9f0f895fb98ab9159f51fd0297e236d45c48cce2e2d7fbdea1afc51c7c6ad26d3d9446802a44259755d38e6d163e8206512bd43d9caa6e02c990b0a82652dcac20ad4d76fe97759aa27a0c99bff6710c51ce410c124a10e0db5e4b97fc2af39aab3238922bcc25a6f606eb525ffdc569bf31c7ff062936a96d3c8bd1f8f2ff3c74d97b01eae257e44aa9d5bade97baf70efdf2ec9b086079795c442636b55fb6f4922f45568161a8cdf4ad2299f6d231f0e3dad99908345f7439f8ffabdffc498f13708210194c475687be6106a3b843c59dc048e8850243be8079a5c74d079b6d767d2f8ed5d21a44b0e5886680cb937693cfc748049e45d87b8c7d8b9aacd1ff1de774005f8da13f42943881c655f8e296a067a37563370ded05f5a3bf3ec4e732ced3463d06de0ca9a15b615367702e74f10e0327ad868d138f2b4fdd6f033e75ff09dd601bbe69f3510391521896ea9ab1baa0efb9e19094440c317e21b34173cb38f07f89ddbebc2ac9128303fc16a5320fa475530d9583c34fd356ef56364d3f0f495b6ab9dcf8d3b5c6e0b01182be0c5cdcd5072bb1864cdee4d3d6ee369853df766fa44e1ed0ff613f563bd1c383cd30b7c298ab50293adfecb7b1819ca14e7ea6328a42e0eb13d585e4c22a5bfc9e07964f8dddeb95fc584cd965da5771bce93e200c36f7cd9dfd0e5deaad67d8ab4f4c10bf22aa353e27879133cd645920e395fedad7bbbed0eca3fe2e03416a75f4cea9109507cacd8e2f2aefca1d0c6e83f027327d8461063f4ac58a617e62166fc8586dfa4d1bc0e1742c08bf7177163c833dff4b38fc8d2872f1ec66c8349cc7260ae62e3b1396831a8398fd9d4f495e875a2e075a1a4a6e1b9770f67c6a1e7ce56d3d6fa748ab6d9af3fd7642e92efb79421734881b53e1e1b18b6f457c545a9ded88f18ecee47145a72c0c0c7c76d30bd3dcaefc96f40275bdc0a2838023a778dfaecdc212708f721b7889a1158154dfa42caddbd0694a4e9bdc8d82c8d1619ad8176d665453cfb2e55f0a684eceee76fc522773286a895bc8436b53b3a3d6ab90ce0268229151c9bde119f61408e3afb633e50cdf1b20de6f46672b32a1f754ba1c09b3695e0cb6cde7f66f041e16a60928b05a7e228a89c3799093f65e080a295f8076b1c5722a46aa2072b030ba126b2f4b2374f342be9ed447f39f8317fbdb1988ef4c628eba0259144f683a84163b3523afe57c2e008bc8c03afdbd66e7929b125f8597834fa83a4ea5d2f1c4608232e07d3aa3d998e5135fc490ca45c00b1249bbe3554a4fdf6fb3295c76acbf4caaed33c36b1b5fc2cb1735b90b4568125ed6c3f678819b6e058a3f390d88e4c41f2747bfa2f1b5f87db14bfa6bb14875e45bba028a21ed380467cbbc409ec990f19c78c75bd1e06f215e2c420d928d4bf8ce0ff2ec19b37151432bb90e8976aab5298d5da10fe66f21dd2ddea18f00665ce8623e36bd4e3c7c5ad61ab143223efbc24c7d2583be69251d09bf41544a3365a46c9077ebb5e35c3fbd7939d674997cdb4692d34de8633c428dd2c7955ce926456240b2ff0100bde35f4a8d465e6e1edc05f3d8ab658c551d1fe173d08e959397adf34b1d77e88d7f033ab37c30201f73f142449d037028d43ec517d68b6edd3015b3edc9a11367b9778d5d219c5080b9a6a17bef029331cfe9fc289c3ff0af142b6d3bead98a92368d30a9594728bc39aa24be94b319d213ef815416f775098fe977004015c619393db85ed909c13838ff95ccfa94cebd9c7e1249ffc03eb9ded908c236bd1996d2a38a4a9316c49e5a833517c45d310707647966b7343c29048673252e490f7368613985ec49eb8f757ae6439e879bb2a54229abfcfa5649e7003b83dd475529492cc227532d17e56e07902b254dfad1098dce83da57b0395e163467c9dae521bf4b9ec30ad9f68f89b29639786cb62ef812b4ba287f5ee0bc9d43bbf5bbe87fb26657d5ff9020d2abefe558796b99584e2ef524fbf3d9fe611d5a8e90fefdc9ced3d2c21991e3bef5e069713af9fa6caac627ab1ccbdb62ec96e702f07f6425bf899139df5e1059396431415e770c6dd
\.


--
-- Data for Name: odd, table; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public."odd, table" (id, "a, b", "per cent %", "größe=") FROM stdin;
1	\N	7	kleiner
\.


--
-- Data for Name: orders; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.orders (id, article, qty) FROM stdin;
101	o	1
102	o	2
103	o	3
104	o	4
105	o	5
106	o	6
107	o	7
108	o	8
\.


--
-- Data for Name: readings; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.readings (id, n, price, day) FROM stdin;
1	32767	123456.780	2026-02-28
2	2147483647	123456789.125	2026-03-01
\.


--
-- Data for Name: ticks; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.ticks (id) FROM stdin;
1
2
3
4
5
6
7
8
9
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
16897	d	\N	16897
16911	d	\N	16911
16916	d	\N	16916
16935	d	\N	16935
16940	d	\N	16940
16904	d	\N	16904
16928	d	\N	16928
\.


--
-- Data for Name: members; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.members (member_id, feature, name, source_table_id, source_schema, source_name, publication_entry_id) FROM stdin;
f6d55714-f96f-4964-904d-37e6ec134ecf	cdc	public_orders	16897	public	orders	17109
a68d8910-d801-4f86-a28d-b2af6b0ca24d	cdc	public_readings	16911	public	readings	17110
e78dc0e9-6fda-4976-95d7-45e5805d76d8	cdc	public_moments	16916	public	moments	17111
246dbc76-c637-44e4-882f-5f637b7d73e6	cdc	public_ticks	16935	public	ticks	17113
118206c3-d829-4a5b-800d-a607dce836d8	cdc	public_bare	16940	public	bare	17114
84d056d2-ec4d-4df3-b11c-59ae8de8457d	cdc	odd	16904	public	odd, table	17115
b5f0bca3-addc-4fe8-a9f3-a628c8af3ec8	cdc	public_notes	16921	public	notes	17116
1c4921d6-06e2-427d-babe-d31c077624e5	cdc	orders_part	16897	public	orders	17109
d8cfc3c7-ba40-481a-a34f-5c5eba76e946	cdc	public_again	16928	public	again	17123
\.


--
-- Data for Name: source; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.source (source_id, system_identifier, publication, publication_id, slot, log_store, lake, created_at) FROM stdin;
a1cfed90-90b2-403e-8f2d-78a32db0ca1b	7712021800426485771	rowtide_16896	16978	rowtide_16896	{folder}/lake/log	{folder}/lake	2026-11-25 08:23:41.982367+00
\.


--
-- Name: change_tables_object_id_seq; Type: SEQUENCE SET; Schema: cdc; Owner: postgres
--

SELECT pg_catalog.setval('cdc.change_tables_object_id_seq', 10, true);


--
-- Name: cleanup_requests_request_id_seq; Type: SEQUENCE SET; Schema: cdc; Owner: postgres
--

SELECT pg_catalog.setval('cdc.cleanup_requests_request_id_seq', 1, true);


--
-- Name: job_history_run_id_seq; Type: SEQUENCE SET; Schema: cdc; Owner: postgres
--

SELECT pg_catalog.setval('cdc.job_history_run_id_seq', 1, false);


--
-- Name: job_requests_request_id_seq; Type: SEQUENCE SET; Schema: cdc; Owner: postgres
--

SELECT pg_catalog.setval('cdc.job_requests_request_id_seq', 1, false);


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
-- Name: again again_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.again
    ADD CONSTRAINT again_pkey PRIMARY KEY (id);


--
-- Name: moments moments_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.moments
    ADD CONSTRAINT moments_pkey PRIMARY KEY (id);


--
-- Name: notes notes_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.notes
    ADD CONSTRAINT notes_pkey PRIMARY KEY (id);


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
-- Name: readings readings_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.readings
    ADD CONSTRAINT readings_pkey PRIMARY KEY (id);


--
-- Name: ticks ticks_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.ticks
    ADD CONSTRAINT ticks_pkey PRIMARY KEY (id);


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
-- Name: index_columns index_columns_object_id_fkey; Type: FK CONSTRAINT; Schema: cdc; Owner: postgres
--

ALTER TABLE ONLY cdc.index_columns
    ADD CONSTRAINT index_columns_object_id_fkey FOREIGN KEY (object_id) REFERENCES cdc.change_tables(object_id) ON DELETE CASCADE;


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
-- Name: rowtide_16896; Type: PUBLICATION; Schema: -; Owner: postgres
--

CREATE PUBLICATION rowtide_16896 WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true);


ALTER PUBLICATION rowtide_16896 OWNER TO postgres;

--
-- Name: rowtide_16896 again; Type: PUBLICATION TABLE; Schema: public; Owner: postgres
--

ALTER PUBLICATION rowtide_16896 ADD TABLE ONLY public.again;


--
-- Name: rowtide_16896 bare; Type: PUBLICATION TABLE; Schema: public; Owner: postgres
--

ALTER PUBLICATION rowtide_16896 ADD TABLE ONLY public.bare;


--
-- Name: rowtide_16896 moments; Type: PUBLICATION TABLE; Schema: public; Owner: postgres
--

ALTER PUBLICATION rowtide_16896 ADD TABLE ONLY public.moments;


--
-- Name: rowtide_16896 notes; Type: PUBLICATION TABLE; Schema: public; Owner: postgres
--

ALTER PUBLICATION rowtide_16896 ADD TABLE ONLY public.notes;


--
-- Name: rowtide_16896 odd, table; Type: PUBLICATION TABLE; Schema: public; Owner: postgres
--

ALTER PUBLICATION rowtide_16896 ADD TABLE ONLY public."odd, table";


--
-- Name: rowtide_16896 orders; Type: PUBLICATION TABLE; Schema: public; Owner: postgres
--

ALTER PUBLICATION rowtide_16896 ADD TABLE ONLY public.orders;


--
-- Name: rowtide_16896 readings; Type: PUBLICATION TABLE; Schema: public; Owner: postgres
--

ALTER PUBLICATION rowtide_16896 ADD TABLE ONLY public.readings;


--
-- Name: rowtide_16896 ticks; Type: PUBLICATION TABLE; Schema: public; Owner: postgres
--

ALTER PUBLICATION rowtide_16896 ADD TABLE ONLY public.ticks;


--
-- Name: SCHEMA cdc; Type: ACL; Schema: -; Owner: postgres
--

GRANT USAGE ON SCHEMA cdc TO PUBLIC;


--
-- Name: SCHEMA rowtide; Type: ACL; Schema: -; Owner: postgres
--

GRANT USAGE ON SCHEMA rowtide TO PUBLIC;


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
-- Name: TABLE again; Type: ACL; Schema: public; Owner: postgres
--

GRANT SELECT ON TABLE public.again TO reporter;


--
-- Name: TABLE bare; Type: ACL; Schema: public; Owner: postgres
--

GRANT SELECT ON TABLE public.bare TO reporter;


--
-- Name: TABLE moments; Type: ACL; Schema: public; Owner: postgres
--

GRANT SELECT ON TABLE public.moments TO reporter;


--
-- Name: TABLE notes; Type: ACL; Schema: public; Owner: postgres
--

GRANT SELECT ON TABLE public.notes TO reporter;


--
-- Name: TABLE "odd, table"; Type: ACL; Schema: public; Owner: postgres
--

GRANT SELECT ON TABLE public."odd, table" TO reporter;


--
-- Name: TABLE orders; Type: ACL; Schema: public; Owner: postgres
--

GRANT SELECT ON TABLE public.orders TO reporter;


--
-- Name: TABLE readings; Type: ACL; Schema: public; Owner: postgres
--

GRANT SELECT ON TABLE public.readings TO reporter;


--
-- Name: TABLE ticks; Type: ACL; Schema: public; Owner: postgres
--

GRANT SELECT ON TABLE public.ticks TO reporter;


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
         WHEN TAG IN ('ALTER TABLE', 'ALTER SCHEMA')
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
-- Name: rowtide_note_rewrite; Type: EVENT TRIGGER; Schema: -; Owner: postgres
--

CREATE EVENT TRIGGER rowtide_note_rewrite ON table_rewrite
   EXECUTE FUNCTION rowtide.rowtide_note_rewrite();

ALTER EVENT TRIGGER rowtide_note_rewrite ENABLE ALWAYS;


ALTER EVENT TRIGGER rowtide_note_rewrite OWNER TO postgres;

--
-- PostgreSQL database dump complete
--


