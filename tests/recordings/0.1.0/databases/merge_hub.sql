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
-- Name: MSmerge_del_557835939(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_del_557835939"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$begin insert into "rowtide_merge"."MSmerge_log" (tablenick, rowguid, kind, stamp) select 557835939, n.rowguid, 3, (select (pg_catalog.pg_current_xact_id()::text)::bigint) from old_rows n; return null; end$$;


ALTER FUNCTION rowtide_merge."MSmerge_del_557835939"() OWNER TO postgres;

--
-- Name: MSmerge_del_617124392(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_del_617124392"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$begin insert into "rowtide_merge"."MSmerge_log" (tablenick, rowguid, kind, stamp) select 617124392, n.rowguid, 3, (select (pg_catalog.pg_current_xact_id()::text)::bigint) from old_rows n; return null; end$$;


ALTER FUNCTION rowtide_merge."MSmerge_del_617124392"() OWNER TO postgres;

--
-- Name: MSmerge_ins_557835939(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_ins_557835939"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$begin insert into "rowtide_merge"."MSmerge_log" (tablenick, rowguid, kind, stamp) select 557835939, n.rowguid, 1, (select (pg_catalog.pg_current_xact_id()::text)::bigint) from new_rows n; return null; end$$;


ALTER FUNCTION rowtide_merge."MSmerge_ins_557835939"() OWNER TO postgres;

--
-- Name: MSmerge_ins_617124392(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_ins_617124392"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$begin insert into "rowtide_merge"."MSmerge_log" (tablenick, rowguid, kind, stamp) select 617124392, n.rowguid, 1, (select (pg_catalog.pg_current_xact_id()::text)::bigint) from new_rows n; return null; end$$;


ALTER FUNCTION rowtide_merge."MSmerge_ins_617124392"() OWNER TO postgres;

--
-- Name: MSmerge_rowguid_557835939(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_rowguid_557835939"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$begin raise exception 'the column rowguid of a merged table stays as it is'; end$$;


ALTER FUNCTION rowtide_merge."MSmerge_rowguid_557835939"() OWNER TO postgres;

--
-- Name: MSmerge_rowguid_617124392(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_rowguid_617124392"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$begin raise exception 'the column rowguid of a merged table stays as it is'; end$$;


ALTER FUNCTION rowtide_merge."MSmerge_rowguid_617124392"() OWNER TO postgres;

--
-- Name: MSmerge_trunc_557835939(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_trunc_557835939"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$begin execute format('insert into "rowtide_merge"."MSmerge_log" (tablenick, rowguid, kind, stamp) select 557835939, n.rowguid, 3, (select (pg_catalog.pg_current_xact_id()::text)::bigint) from %1$s n', tg_relid::regclass); return null; end$_$;


ALTER FUNCTION rowtide_merge."MSmerge_trunc_557835939"() OWNER TO postgres;

--
-- Name: MSmerge_trunc_617124392(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_trunc_617124392"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$begin execute format('insert into "rowtide_merge"."MSmerge_log" (tablenick, rowguid, kind, stamp) select 617124392, n.rowguid, 3, (select (pg_catalog.pg_current_xact_id()::text)::bigint) from %1$s n', tg_relid::regclass); return null; end$_$;


ALTER FUNCTION rowtide_merge."MSmerge_trunc_617124392"() OWNER TO postgres;

--
-- Name: MSmerge_upd_557835939(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_upd_557835939"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$begin insert into "rowtide_merge"."MSmerge_log" (tablenick, rowguid, kind, stamp) select 557835939, n.rowguid, 2, (select (pg_catalog.pg_current_xact_id()::text)::bigint) from new_rows n; return null; end$$;


ALTER FUNCTION rowtide_merge."MSmerge_upd_557835939"() OWNER TO postgres;

--
-- Name: MSmerge_upd_617124392(); Type: FUNCTION; Schema: rowtide_merge; Owner: postgres
--

CREATE FUNCTION rowtide_merge."MSmerge_upd_617124392"() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$begin insert into "rowtide_merge"."MSmerge_log" (tablenick, rowguid, kind, stamp, columns) select 617124392, n.rowguid, 2, (select (pg_catalog.pg_current_xact_id()::text)::bigint), array[row(o."id")::record operator(pg_catalog.*<>) row(n."id")::record, row(o."item")::record operator(pg_catalog.*<>) row(n."item")::record, row(o."qty")::record operator(pg_catalog.*<>) row(n."qty")::record] from new_rows n join old_rows o on o.rowguid = n.rowguid; return null; end$$;


ALTER FUNCTION rowtide_merge."MSmerge_upd_617124392"() OWNER TO postgres;

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
-- Name: COLUMN "MSmerge_conflicts_info".resolved_time; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_conflicts_info".resolved_time IS 'when somebody changed the resolution';


--
-- Name: MSmerge_contents; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge."MSmerge_contents" (
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


ALTER TABLE rowtide_merge."MSmerge_contents" OWNER TO postgres;

--
-- Name: MSmerge_current_partition_mappings; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge."MSmerge_current_partition_mappings" (
    replnickname bigint NOT NULL,
    tablenick integer NOT NULL,
    rowguid uuid NOT NULL,
    parent uuid,
    generation bigint NOT NULL,
    is_leaving boolean NOT NULL
);


ALTER TABLE rowtide_merge."MSmerge_current_partition_mappings" OWNER TO postgres;

--
-- Name: COLUMN "MSmerge_current_partition_mappings".replnickname; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_current_partition_mappings".replnickname IS 'of the subscriber that has the row';


--
-- Name: COLUMN "MSmerge_current_partition_mappings".parent; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_current_partition_mappings".parent IS 'the row by which it has it, null by the article''s own filter';


--
-- Name: COLUMN "MSmerge_current_partition_mappings".generation; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_current_partition_mappings".generation IS 'in which it was first sent; 0: it came from there';


--
-- Name: COLUMN "MSmerge_current_partition_mappings".is_leaving; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_current_partition_mappings".is_leaving IS 'it is in the partition no more, but may be there still';


--
-- Name: MSmerge_genhistory; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge."MSmerge_genhistory" (
    nickname bigint NOT NULL,
    generation bigint NOT NULL,
    guidsrc text NOT NULL,
    genstatus integer NOT NULL,
    snapshot text,
    coldate timestamp with time zone DEFAULT now() NOT NULL
);


ALTER TABLE rowtide_merge."MSmerge_genhistory" OWNER TO postgres;

--
-- Name: COLUMN "MSmerge_genhistory".nickname; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_genhistory".nickname IS 'of the node whose generation it is';


--
-- Name: COLUMN "MSmerge_genhistory".genstatus; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_genhistory".genstatus IS '1 closed here, 2 received';


--
-- Name: COLUMN "MSmerge_genhistory".snapshot; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_genhistory".snapshot IS 'what a PostgreSQL node sees of its own transactions in it';


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
    ordinal bigint
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
-- Name: MSmerge_partition_groups; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge."MSmerge_partition_groups" (
    partition_id integer NOT NULL,
    pubid text NOT NULL,
    "HOST_NAME_FN" text,
    "SUSER_NAME_FN" text,
    is_explicit boolean NOT NULL
);


ALTER TABLE rowtide_merge."MSmerge_partition_groups" OWNER TO postgres;

--
-- Name: COLUMN "MSmerge_partition_groups"."HOST_NAME_FN"; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_partition_groups"."HOST_NAME_FN" IS 'what host_name() is; null: no filter asks';


--
-- Name: COLUMN "MSmerge_partition_groups"."SUSER_NAME_FN"; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_partition_groups"."SUSER_NAME_FN" IS 'what suser_name() is';


--
-- Name: COLUMN "MSmerge_partition_groups".is_explicit; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_partition_groups".is_explicit IS 'it stays without a subscription';


--
-- Name: MSmerge_partition_groups_partition_id_seq; Type: SEQUENCE; Schema: rowtide_merge; Owner: postgres
--

CREATE SEQUENCE rowtide_merge."MSmerge_partition_groups_partition_id_seq"
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER SEQUENCE rowtide_merge."MSmerge_partition_groups_partition_id_seq" OWNER TO postgres;

--
-- Name: MSmerge_partition_groups_partition_id_seq; Type: SEQUENCE OWNED BY; Schema: rowtide_merge; Owner: postgres
--

ALTER SEQUENCE rowtide_merge."MSmerge_partition_groups_partition_id_seq" OWNED BY rowtide_merge."MSmerge_partition_groups".partition_id;


--
-- Name: MSmerge_replinfo; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge."MSmerge_replinfo" (
    nickname bigint NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    purgedgen bigint DEFAULT '0'::bigint NOT NULL,
    metadatacleanuptime timestamp with time zone DEFAULT now() NOT NULL
);


ALTER TABLE rowtide_merge."MSmerge_replinfo" OWNER TO postgres;

--
-- Name: COLUMN "MSmerge_replinfo".nickname; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_replinfo".nickname IS 'this node''s own';


--
-- Name: COLUMN "MSmerge_replinfo".purgedgen; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge."MSmerge_replinfo".purgedgen IS 'metadata up to it are gone';


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
-- Name: MSmerge_tombstone; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge."MSmerge_tombstone" (
    tablenick integer NOT NULL,
    rowguid uuid NOT NULL,
    stamp bigint NOT NULL,
    type smallint NOT NULL,
    origin bigint,
    priority double precision,
    lineage bytea,
    last bytea
);


ALTER TABLE rowtide_merge."MSmerge_tombstone" OWNER TO postgres;

--
-- Name: sysmergearticles; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge.sysmergearticles (
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


ALTER TABLE rowtide_merge.sysmergearticles OWNER TO postgres;

--
-- Name: COLUMN sysmergearticles.nickname; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmergearticles.nickname IS 'the table''s, in all metadata';


--
-- Name: COLUMN sysmergearticles.definition; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmergearticles.definition IS 'JSON: all of it';


--
-- Name: COLUMN sysmergearticles.purged_lineage; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmergearticles.purged_lineage IS 'what rows without metadata include';


--
-- Name: COLUMN sysmergearticles.preserve_rowguidcol; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmergearticles.preserve_rowguidcol IS 'false: the column rowguid goes with the article';


--
-- Name: sysmergepublications; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge.sysmergepublications (
    pubid text NOT NULL,
    name text NOT NULL,
    publisher bigint NOT NULL,
    retention integer NOT NULL
);


ALTER TABLE rowtide_merge.sysmergepublications OWNER TO postgres;

--
-- Name: COLUMN sysmergepublications.publisher; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmergepublications.publisher IS 'the hub''s nickname';


--
-- Name: COLUMN sysmergepublications.retention; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmergepublications.retention IS 'days; 0: for ever';


--
-- Name: sysmergesubscriptions; Type: TABLE; Schema: rowtide_merge; Owner: postgres
--

CREATE TABLE rowtide_merge.sysmergesubscriptions (
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
    last_sync_status integer NOT NULL,
    last_sync_summary text
);


ALTER TABLE rowtide_merge.sysmergesubscriptions OWNER TO postgres;

--
-- Name: COLUMN sysmergesubscriptions.subscriber_server; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmergesubscriptions.subscriber_server IS 'its URL, without a password';


--
-- Name: COLUMN sysmergesubscriptions.replnickname; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmergesubscriptions.replnickname IS 'of the other node';


--
-- Name: COLUMN sysmergesubscriptions.subscriber_type; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmergesubscriptions.subscriber_type IS '1 server, 2 client';


--
-- Name: COLUMN sysmergesubscriptions.replicastate; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmergesubscriptions.replicastate IS 'the mark of the last synchronisation';


--
-- Name: COLUMN sysmergesubscriptions.next_replicastate; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmergesubscriptions.next_replicastate IS 'the mark that the current one leaves';


--
-- Name: COLUMN sysmergesubscriptions.settledgen; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmergesubscriptions.settledgen IS 'metadata up to it are not needed for this subscription';


--
-- Name: COLUMN sysmergesubscriptions.waitinggen; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmergesubscriptions.waitinggen IS 'it is settled when the publisher has purged waitingpubgen';


--
-- Name: COLUMN sysmergesubscriptions.partition_id; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmergesubscriptions.partition_id IS 'of the subscriber; null where no article is filtered';


--
-- Name: COLUMN sysmergesubscriptions.last_sync_status; Type: COMMENT; Schema: rowtide_merge; Owner: postgres
--

COMMENT ON COLUMN rowtide_merge.sysmergesubscriptions.last_sync_status IS '0 waiting, 2 succeeded, 3 running, 6 failed';


--
-- Name: MSmerge_partition_groups partition_id; Type: DEFAULT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_partition_groups" ALTER COLUMN partition_id SET DEFAULT nextval('rowtide_merge."MSmerge_partition_groups_partition_id_seq"'::regclass);


--
-- Name: MSmerge_replinfo nickname; Type: DEFAULT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_replinfo" ALTER COLUMN nickname SET DEFAULT nextval('rowtide_merge."MSmerge_replinfo_nickname_seq"'::regclass);


--
-- Name: MSmerge_sessions session_id; Type: DEFAULT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_sessions" ALTER COLUMN session_id SET DEFAULT nextval('rowtide_merge."MSmerge_sessions_session_id_seq"'::regclass);


--
-- Data for Name: hidden; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.hidden (id, region, rowguid) FROM stdin;
1	north	01a211cd-628d-7e3d-8679-96a44aeaef00
2	south	01a211cd-628d-7816-80f4-bc9801a92600
\.


--
-- Data for Name: orders; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.orders (id, item, qty, rowguid) FROM stdin;
2	ink	\N	01a211cd-6172-70f3-8cf6-4c6d25275e00
10	new	\N	01a211cd-661d-7000-8000-c177907a58cd
1	hub	30	01a211cd-6172-744d-8111-a1f6b2fb4000
\.


--
-- Data for Name: MSmerge_articlehistory; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_articlehistory" (session_id, article, phase, inserts, updates, deletes, conflicts, rows_retried, duration) FROM stdin;
3	orders	1	1	0	0	1	0	0.09295942700009618
3	orders	2	0	1	1	0	0	0.0071875330002058035
\.


--
-- Data for Name: MSmerge_conflicts_info; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_conflicts_info" (conflict_id, pubid, article, tablenick, rowguid, conflict_type, origin_datasource, origin_datasource_id, reason_code, reason_text, losing_row, winning_row, losing_lineage, "MSrepl_create_time", resolved_time) FROM stdin;
c94180df1cdf4b28947770eb8a237e01	1bce4c87-37ec-4fae-8a36-5e6a00b4533b	orders	617124392	01a211cd-6172-744d-8111-a1f6b2fb4000	2	sqlite:///{folder}/merge_field.db	36647125751068	2	the same column was updated at both nodes	{"id": "1", "item": "field", "qty": "3"}	{"id": "1", "item": "hub", "qty": "3"}	\\x04482252dec400000001215492e9951c00000002	2026-11-25 08:23:23.535528+00	\N
\.


--
-- Data for Name: MSmerge_contents; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_contents" (tablenick, rowguid, stamp, origin, priority, lineage, last, colv, own_columns, bases) FROM stdin;
617124392	01a211cd-661d-7000-8000-c177907a58cd	773	36647125751068	\N	\\x04482252dec400000001215492e9951c00000002	\\x215492e9951c00000002	\\x	\N	\N
617124392	01a211cd-6172-744d-8111-a1f6b2fb4000	773	\N	\N	\\x04482252dec400000002215492e9951c00000002	\N	\\x000104482252dec400000002	{NULL,773,NULL}	\N
\.


--
-- Data for Name: MSmerge_current_partition_mappings; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_current_partition_mappings" (replnickname, tablenick, rowguid, parent, generation, is_leaving) FROM stdin;
36647125751068	557835939	01a211cd-628d-7e3d-8679-96a44aeaef00	\N	1	f
\.


--
-- Data for Name: MSmerge_genhistory; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_genhistory" (nickname, generation, guidsrc, genstatus, snapshot, coldate) FROM stdin;
4707860012740	1	eb9f3eb3-9466-41ba-b969-6d8e7404f224	1	759:759:	2026-11-25 08:23:22.778338+00
36647125751068	1	db123f2f-d8b0-450a-94a8-b959b27d03a4	2	\N	2026-11-25 08:23:22.943583+00
36647125751068	2	c62753e2-f27a-4f24-ae7f-c58d48a4228f	2	\N	2026-11-25 08:23:23.589654+00
4707860012740	2	1f79ca80-1b5d-4507-824b-32d59b4f827c	1	776:776:	2026-11-25 08:23:23.633134+00
36647125751068	3	c28d1b66-fcbd-42e5-9cf4-872becc07375	2	\N	2026-11-25 08:23:23.769328+00
\.


--
-- Data for Name: MSmerge_log; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_log" (tablenick, rowguid, kind, stamp, columns, base, ordinal) FROM stdin;
617124392	01a211cd-6172-744d-8111-a1f6b2fb4000	2	785	{f,f,t}	\N	\N
\.


--
-- Data for Name: MSmerge_partition_groups; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_partition_groups" (partition_id, pubid, "HOST_NAME_FN", "SUSER_NAME_FN", is_explicit) FROM stdin;
1	1bce4c87-37ec-4fae-8a36-5e6a00b4533b	\N	\N	f
\.


--
-- Data for Name: MSmerge_replinfo; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_replinfo" (nickname, created_at, purgedgen, metadatacleanuptime) FROM stdin;
4707860012740	2026-11-25 08:23:22.103128+00	0	2026-11-25 08:23:22.103128+00
\.


--
-- Data for Name: MSmerge_retries; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_retries" (source, tablenick, rowguid, reason_code, reason_text, since) FROM stdin;
\.


--
-- Data for Name: MSmerge_sessions; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_sessions" (session_id, subid, start_time, duration, upload_time, download_time, runstatus, message) FROM stdin;
1	168ecb33-b8ff-436d-9a41-3aa05948032f	2026-11-25 08:23:22.909709+00	0.12456173399982617	3.6323999893284054e-05	3.757600006792927e-05	2	uploaded 0 rows, downloaded 0, 0 conflicts, 0 retried
2	168ecb33-b8ff-436d-9a41-3aa05948032f	2026-11-25 08:23:23.149516+00	0.2500505719999637	3.427100000408245e-05	4.00490000629361e-05	2	uploaded 0 rows, downloaded 0, 0 conflicts, 0 retried
3	168ecb33-b8ff-436d-9a41-3aa05948032f	2026-11-25 08:23:23.479015+00	0.22921652999980324	0.09306172800006607	0.007358346999808418	2	uploaded 1 rows, downloaded 2, 1 conflicts, 0 retried
4	168ecb33-b8ff-436d-9a41-3aa05948032f	2026-11-25 08:23:23.752776+00	0.08665126500000042	3.6172999898553826e-05	4.320400012147729e-05	2	uploaded 0 rows, downloaded 0, 0 conflicts, 0 retried
\.


--
-- Data for Name: MSmerge_tombstone; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge."MSmerge_tombstone" (tablenick, rowguid, stamp, type, origin, priority, lineage, last) FROM stdin;
617124392	01a211cd-6172-74f2-8eb3-050ea56a9e00	770	1	\N	\N	\N	\N
\.


--
-- Data for Name: sysmergearticles; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge.sysmergearticles (pubid, name, nickname, processing_order, column_tracking, article_resolver, definition, purged_lineage, preserve_rowguidcol) FROM stdin;
1bce4c87-37ec-4fae-8a36-5e6a00b4533b	hidden	557835939	0	f	priority	{"name": "hidden", "schema": "public", "table": "hidden", "nickname": 557835939, "columns": [{"name": "id", "type_text": "integer", "is_nullable": false, "key_ordinal": 1}, {"name": "region", "type_text": "character varying(10)", "is_nullable": true, "key_ordinal": null}], "processing_order": 0, "column_tracking": false, "resolver": "priority", "compensate_for_errors": false, "unique_columns": ["id"], "subset_filter": "region = 'north'", "join_filters": [], "partition_options": 0}	\\x	f
1bce4c87-37ec-4fae-8a36-5e6a00b4533b	orders	617124392	1	t	priority	{"name": "orders", "schema": "public", "table": "orders", "nickname": 617124392, "columns": [{"name": "id", "type_text": "integer", "is_nullable": false, "key_ordinal": 1}, {"name": "item", "type_text": "character varying(20)", "is_nullable": true, "key_ordinal": null}, {"name": "qty", "type_text": "integer", "is_nullable": true, "key_ordinal": null}], "processing_order": 1, "column_tracking": true, "resolver": "priority", "compensate_for_errors": false, "unique_columns": ["id"], "subset_filter": null, "join_filters": [], "partition_options": 0}	\\x	f
\.


--
-- Data for Name: sysmergepublications; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge.sysmergepublications (pubid, name, publisher, retention) FROM stdin;
1bce4c87-37ec-4fae-8a36-5e6a00b4533b	shop	4707860012740	14
\.


--
-- Data for Name: sysmergesubscriptions; Type: TABLE DATA; Schema: rowtide_merge; Owner: postgres
--

COPY rowtide_merge.sysmergesubscriptions (subid, pubid, subscriber_server, replnickname, subscriber_type, priority, sentgen, recgen, replicastate, next_replicastate, session, settledgen, waitinggen, waitingpubgen, partition_id, last_sync_date, last_sync_status, last_sync_summary) FROM stdin;
168ecb33-b8ff-436d-9a41-3aa05948032f	1bce4c87-37ec-4fae-8a36-5e6a00b4533b	sqlite:///{folder}/merge_field.db	36647125751068	2	0	2	3	09ada029f8b8f6d927d9d433d6106105	\N	4	2	\N	\N	1	2026-11-25 08:23:23.838162+00	2	uploaded 0 rows, downloaded 0, 0 conflicts, 0 retried
\.


--
-- Name: MSmerge_log_order; Type: SEQUENCE SET; Schema: rowtide_merge; Owner: postgres
--

SELECT pg_catalog.setval('rowtide_merge."MSmerge_log_order"', 1, false);


--
-- Name: MSmerge_partition_groups_partition_id_seq; Type: SEQUENCE SET; Schema: rowtide_merge; Owner: postgres
--

SELECT pg_catalog.setval('rowtide_merge."MSmerge_partition_groups_partition_id_seq"', 1, true);


--
-- Name: MSmerge_replinfo_nickname_seq; Type: SEQUENCE SET; Schema: rowtide_merge; Owner: postgres
--

SELECT pg_catalog.setval('rowtide_merge."MSmerge_replinfo_nickname_seq"', 1, false);


--
-- Name: MSmerge_sessions_session_id_seq; Type: SEQUENCE SET; Schema: rowtide_merge; Owner: postgres
--

SELECT pg_catalog.setval('rowtide_merge."MSmerge_sessions_session_id_seq"', 4, true);


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
-- Name: MSmerge_contents MSmerge_contents_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_contents"
    ADD CONSTRAINT "MSmerge_contents_pkey" PRIMARY KEY (rowguid, tablenick);


--
-- Name: MSmerge_current_partition_mappings MSmerge_current_partition_mappings_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_current_partition_mappings"
    ADD CONSTRAINT "MSmerge_current_partition_mappings_pkey" PRIMARY KEY (replnickname, tablenick, rowguid);


--
-- Name: MSmerge_genhistory MSmerge_genhistory_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_genhistory"
    ADD CONSTRAINT "MSmerge_genhistory_pkey" PRIMARY KEY (nickname, generation);


--
-- Name: MSmerge_partition_groups MSmerge_partition_groups_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_partition_groups"
    ADD CONSTRAINT "MSmerge_partition_groups_pkey" PRIMARY KEY (partition_id);


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
-- Name: MSmerge_sessions MSmerge_sessions_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_sessions"
    ADD CONSTRAINT "MSmerge_sessions_pkey" PRIMARY KEY (session_id);


--
-- Name: MSmerge_tombstone MSmerge_tombstone_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge."MSmerge_tombstone"
    ADD CONSTRAINT "MSmerge_tombstone_pkey" PRIMARY KEY (rowguid, tablenick);


--
-- Name: sysmergearticles sysmergearticles_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge.sysmergearticles
    ADD CONSTRAINT sysmergearticles_pkey PRIMARY KEY (pubid, name);


--
-- Name: sysmergepublications sysmergepublications_name_key; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge.sysmergepublications
    ADD CONSTRAINT sysmergepublications_name_key UNIQUE (name);


--
-- Name: sysmergepublications sysmergepublications_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge.sysmergepublications
    ADD CONSTRAINT sysmergepublications_pkey PRIMARY KEY (pubid);


--
-- Name: sysmergesubscriptions sysmergesubscriptions_pkey; Type: CONSTRAINT; Schema: rowtide_merge; Owner: postgres
--

ALTER TABLE ONLY rowtide_merge.sysmergesubscriptions
    ADD CONSTRAINT sysmergesubscriptions_pkey PRIMARY KEY (subid);


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

CREATE INDEX "MSmerge_contents_stamp" ON rowtide_merge."MSmerge_contents" USING btree (stamp, ((tablenick + 0)));


--
-- Name: MSmerge_current_partition_mappings_leaving; Type: INDEX; Schema: rowtide_merge; Owner: postgres
--

CREATE INDEX "MSmerge_current_partition_mappings_leaving" ON rowtide_merge."MSmerge_current_partition_mappings" USING btree (tablenick) WHERE is_leaving;


--
-- Name: MSmerge_current_partition_mappings_parent; Type: INDEX; Schema: rowtide_merge; Owner: postgres
--

CREATE INDEX "MSmerge_current_partition_mappings_parent" ON rowtide_merge."MSmerge_current_partition_mappings" USING btree (parent, ((replnickname + 0)));


--
-- Name: MSmerge_tombstone_stamp; Type: INDEX; Schema: rowtide_merge; Owner: postgres
--

CREATE INDEX "MSmerge_tombstone_stamp" ON rowtide_merge."MSmerge_tombstone" USING btree (stamp, ((tablenick + 0)));


--
-- Name: hidden MSmerge_del_557835939; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_del_557835939" AFTER DELETE ON public.hidden REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT WHEN (((current_setting('rowtide.merge_agent'::text, true) IS DISTINCT FROM 'on'::text) OR (pg_trigger_depth() > 0))) EXECUTE FUNCTION rowtide_merge."MSmerge_del_557835939"();

ALTER TABLE public.hidden ENABLE ALWAYS TRIGGER "MSmerge_del_557835939";


--
-- Name: orders MSmerge_del_617124392; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_del_617124392" AFTER DELETE ON public.orders REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT WHEN (((current_setting('rowtide.merge_agent'::text, true) IS DISTINCT FROM 'on'::text) OR (pg_trigger_depth() > 0))) EXECUTE FUNCTION rowtide_merge."MSmerge_del_617124392"();

ALTER TABLE public.orders ENABLE ALWAYS TRIGGER "MSmerge_del_617124392";


--
-- Name: hidden MSmerge_ins_557835939; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_ins_557835939" AFTER INSERT ON public.hidden REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT WHEN (((current_setting('rowtide.merge_agent'::text, true) IS DISTINCT FROM 'on'::text) OR (pg_trigger_depth() > 0))) EXECUTE FUNCTION rowtide_merge."MSmerge_ins_557835939"();

ALTER TABLE public.hidden ENABLE ALWAYS TRIGGER "MSmerge_ins_557835939";


--
-- Name: orders MSmerge_ins_617124392; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_ins_617124392" AFTER INSERT ON public.orders REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT WHEN (((current_setting('rowtide.merge_agent'::text, true) IS DISTINCT FROM 'on'::text) OR (pg_trigger_depth() > 0))) EXECUTE FUNCTION rowtide_merge."MSmerge_ins_617124392"();

ALTER TABLE public.orders ENABLE ALWAYS TRIGGER "MSmerge_ins_617124392";


--
-- Name: hidden MSmerge_rowguid_557835939; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_rowguid_557835939" BEFORE UPDATE OF rowguid ON public.hidden FOR EACH ROW WHEN ((old.rowguid IS DISTINCT FROM new.rowguid)) EXECUTE FUNCTION rowtide_merge."MSmerge_rowguid_557835939"();

ALTER TABLE public.hidden ENABLE ALWAYS TRIGGER "MSmerge_rowguid_557835939";


--
-- Name: orders MSmerge_rowguid_617124392; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_rowguid_617124392" BEFORE UPDATE OF rowguid ON public.orders FOR EACH ROW WHEN ((old.rowguid IS DISTINCT FROM new.rowguid)) EXECUTE FUNCTION rowtide_merge."MSmerge_rowguid_617124392"();

ALTER TABLE public.orders ENABLE ALWAYS TRIGGER "MSmerge_rowguid_617124392";


--
-- Name: hidden MSmerge_trunc_557835939; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_trunc_557835939" BEFORE TRUNCATE ON public.hidden FOR EACH STATEMENT WHEN (((current_setting('rowtide.merge_agent'::text, true) IS DISTINCT FROM 'on'::text) OR (pg_trigger_depth() > 0))) EXECUTE FUNCTION rowtide_merge."MSmerge_trunc_557835939"();

ALTER TABLE public.hidden ENABLE ALWAYS TRIGGER "MSmerge_trunc_557835939";


--
-- Name: orders MSmerge_trunc_617124392; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_trunc_617124392" BEFORE TRUNCATE ON public.orders FOR EACH STATEMENT WHEN (((current_setting('rowtide.merge_agent'::text, true) IS DISTINCT FROM 'on'::text) OR (pg_trigger_depth() > 0))) EXECUTE FUNCTION rowtide_merge."MSmerge_trunc_617124392"();

ALTER TABLE public.orders ENABLE ALWAYS TRIGGER "MSmerge_trunc_617124392";


--
-- Name: hidden MSmerge_upd_557835939; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_upd_557835939" AFTER UPDATE ON public.hidden REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT WHEN (((current_setting('rowtide.merge_agent'::text, true) IS DISTINCT FROM 'on'::text) OR (pg_trigger_depth() > 0))) EXECUTE FUNCTION rowtide_merge."MSmerge_upd_557835939"();

ALTER TABLE public.hidden ENABLE ALWAYS TRIGGER "MSmerge_upd_557835939";


--
-- Name: orders MSmerge_upd_617124392; Type: TRIGGER; Schema: public; Owner: postgres
--

CREATE TRIGGER "MSmerge_upd_617124392" AFTER UPDATE ON public.orders REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT WHEN (((current_setting('rowtide.merge_agent'::text, true) IS DISTINCT FROM 'on'::text) OR (pg_trigger_depth() > 0))) EXECUTE FUNCTION rowtide_merge."MSmerge_upd_617124392"();

ALTER TABLE public.orders ENABLE ALWAYS TRIGGER "MSmerge_upd_617124392";


--
-- PostgreSQL database dump complete
--


