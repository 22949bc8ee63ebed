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
1	name	2	text	2	f
2	id	1	integer	1	f
\.


--
-- Data for Name: cdc_jobs; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.cdc_jobs (job_id, job_type, job_name, maxtrans, maxscans, continuous, pollinginterval, retention, threshold, schedule, created_at) FROM stdin;
e4e5f5c8-cac4-4b2f-82f8-c3d6be48ac0f	capture	cdc.interrupted_capture	\N	\N	t	\N	\N	\N	\N	2026-11-25 08:27:43.032254+00
f6a35de9-61a4-47ac-8c4d-a35eac488155	cleanup	cdc.interrupted_cleanup	\N	\N	\N	\N	4320	\N	0 2 * * *	2026-11-25 08:27:43.032254+00
\.


--
-- Data for Name: change_tables; Type: TABLE DATA; Schema: cdc; Owner: postgres
--

COPY cdc.change_tables (object_id, version, source_object_id, capture_instance, start_lsn, end_lsn, supports_net_changes, has_drop_pending, role_name, index_name, create_date, member_id, refuses_truncate, before_images) FROM stdin;
1	0	17135	public_item	\N	\N	t	f	\N	item_pkey	2026-11-25 08:27:43.032254+00	78b8dfc9-0d76-4c99-b5e2-8eeaba3139d9	f	full
2	0	17142	public_other	\N	\N	t	f	\N	other_pkey	2026-11-25 08:27:43.18577+00	b0ffe3cd-799d-4575-b540-a23bcb505338	f	full
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

COPY cdc.log_scan_sessions (session_id, start_time, end_time, duration, scan_phase, error_count, start_lsn, current_lsn, end_lsn, tran_count, last_commit_lsn, last_commit_time, log_record_count, schema_change_count, command_count, first_begin_cdc_lsn, last_commit_cdc_lsn, last_commit_cdc_time, latency, empty_scan_count, failed_sessions_count) FROM stdin;
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
-- Data for Name: features; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.features (feature) FROM stdin;
cdc
\.


--
-- Data for Name: identities; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.identities (source_table_id, identity, identity_index, captured_table_id) FROM stdin;
17135	d	\N	17135
17142	d	\N	17142
\.


--
-- Data for Name: members; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.members (member_id, feature, name, source_table_id, source_schema, source_name, publication_entry_id) FROM stdin;
78b8dfc9-0d76-4c99-b5e2-8eeaba3139d9	cdc	public_item	17135	public	item	17310
b0ffe3cd-799d-4575-b540-a23bcb505338	cdc	public_other	17142	public	other	17311
\.


--
-- Data for Name: source; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.source (source_id, system_identifier, publication, publication_id, slot, log_store, lake, created_at) FROM stdin;
c1166d81-d9b6-4e08-8408-dca66b6eff4b	7712021800426485771	rowtide_17134	17179	rowtide_17134	{folder}/interrupted/log	{folder}/interrupted	2026-11-25 08:27:42.761014+00
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
-- Name: rowtide_17134; Type: PUBLICATION; Schema: -; Owner: postgres
--

CREATE PUBLICATION rowtide_17134 WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true);


ALTER PUBLICATION rowtide_17134 OWNER TO postgres;

--
-- Name: rowtide_17134 item; Type: PUBLICATION TABLE; Schema: public; Owner: postgres
--

ALTER PUBLICATION rowtide_17134 ADD TABLE ONLY public.item;


--
-- Name: rowtide_17134 other; Type: PUBLICATION TABLE; Schema: public; Owner: postgres
--

ALTER PUBLICATION rowtide_17134 ADD TABLE ONLY public.other;


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


