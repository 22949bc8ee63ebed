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
-- Name: MSdistribution_agents; Type: TABLE; Schema: distribution; Owner: postgres
--

CREATE TABLE distribution."MSdistribution_agents" (
    id integer NOT NULL,
    publication_id integer NOT NULL,
    subscriber text NOT NULL,
    constraints text,
    resumptions integer DEFAULT 0 NOT NULL,
    subscription_guid text NOT NULL
);


ALTER TABLE distribution."MSdistribution_agents" OWNER TO postgres;

--
-- Name: COLUMN "MSdistribution_agents".subscriber; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_agents".subscriber IS 'its URL, without a password';


--
-- Name: COLUMN "MSdistribution_agents".constraints; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_agents".constraints IS 'whether the subscriber''s own act on what is delivered; null: nobody was asked';


--
-- Name: COLUMN "MSdistribution_agents".resumptions; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_agents".resumptions IS 'how often it was resumed';


--
-- Name: COLUMN "MSdistribution_agents".subscription_guid; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSdistribution_agents".subscription_guid IS 'what the subscriber''s progress goes by';


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

COMMENT ON COLUMN distribution."MSdistribution_history".delivery_rate IS 'commands per second, since the start';


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
    created_at timestamp with time zone DEFAULT now() NOT NULL
);


ALTER TABLE distribution."MSpublications" OWNER TO postgres;

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

COMMENT ON COLUMN distribution."MSrepl_errors".source_name IS 'the subscriber';


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
-- Name: MSsubscriptions; Type: TABLE; Schema: distribution; Owner: postgres
--

CREATE TABLE distribution."MSsubscriptions" (
    agent_id integer NOT NULL,
    article_id text NOT NULL,
    sync_type text NOT NULL,
    subscription_seqno bigint NOT NULL,
    status integer DEFAULT 2 NOT NULL,
    subscription_time timestamp with time zone DEFAULT now() NOT NULL
);


ALTER TABLE distribution."MSsubscriptions" OWNER TO postgres;

--
-- Name: COLUMN "MSsubscriptions".subscription_seqno; Type: COMMENT; Schema: distribution; Owner: postgres
--

COMMENT ON COLUMN distribution."MSsubscriptions".subscription_seqno IS 'changes are delivered from this position on';


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
-- Data for Name: MSarticles; Type: TABLE DATA; Schema: distribution; Owner: postgres
--

COPY distribution."MSarticles" (article_id, publication_id, article, source_object_id, source_owner, source_object, ins_cmd, upd_cmd, del_cmd, ins_proc, upd_proc, filter_clause, del_proc, definition) FROM stdin;
f388c3de-33ea-4f48-a8e2-14f240abdf9d	1	orders	16651	public	orders	CALL	SCALL	CALL	sp_MSins_publicorders	sp_MSupd_publicorders	qty > 0 or qty is null	sp_MSdel_publicorders	{"article_id":"f388c3de-33ea-4f48-a8e2-14f240abdf9d","publication":"shop","name":"orders","source_id":16651,"schema":"public","table":"orders","columns":[{"number":1,"name":"id","type_text":"integer","type_code":23,"type_modifier":-1,"is_nullable":false,"key_ordinal":1,"value_type_text":"integer","has_deterministic_collation":true},{"number":2,"name":"item","type_text":"text","type_code":25,"type_modifier":-1,"is_nullable":true,"key_ordinal":null,"value_type_text":"text","has_deterministic_collation":true},{"number":3,"name":"qty","type_text":"integer","type_code":23,"type_modifier":-1,"is_nullable":true,"key_ordinal":null,"value_type_text":"integer","has_deterministic_collation":true}],"insert":{"call_format":"CALL","procedure":null},"update":{"call_format":"SCALL","procedure":null},"delete":{"call_format":"CALL","procedure":null},"insert_procedure":"sp_MSins_publicorders","update_procedure":"sp_MSupd_publicorders","delete_procedure":"sp_MSdel_publicorders","before_images":"full","has_all_columns":true,"generated_columns":[],"filter_clause":"qty > 0 or qty is null","is_partitioned":false,"key_updates":"update"}
50e20115-f581-4770-b183-1ff25233c7b5	1	odd, table	16658	public	odd, table	CALL	SCALL	CALL	sp_MSins_publicodd, table	sp_MSupd_publicodd, table	\N	sp_MSdel_publicodd, table	{"article_id":"50e20115-f581-4770-b183-1ff25233c7b5","publication":"shop","name":"odd, table","source_id":16658,"schema":"public","table":"odd, table","columns":[{"number":1,"name":"id","type_text":"integer","type_code":23,"type_modifier":-1,"is_nullable":false,"key_ordinal":1,"value_type_text":"integer","has_deterministic_collation":true},{"number":2,"name":"a, b","type_text":"text","type_code":25,"type_modifier":-1,"is_nullable":true,"key_ordinal":null,"value_type_text":"text","has_deterministic_collation":true},{"number":3,"name":"per cent %","type_text":"integer","type_code":23,"type_modifier":-1,"is_nullable":true,"key_ordinal":null,"value_type_text":"integer","has_deterministic_collation":true},{"number":4,"name":"größe=","type_text":"text","type_code":25,"type_modifier":-1,"is_nullable":true,"key_ordinal":null,"value_type_text":"text","has_deterministic_collation":true}],"insert":{"call_format":"CALL","procedure":null},"update":{"call_format":"SCALL","procedure":null},"delete":{"call_format":"CALL","procedure":null},"insert_procedure":"sp_MSins_publicodd, table","update_procedure":"sp_MSupd_publicodd, table","delete_procedure":"sp_MSdel_publicodd, table","before_images":"full","has_all_columns":true,"generated_columns":[],"filter_clause":null,"is_partitioned":false,"key_updates":"update"}
5f0d3778-9c06-4468-9149-cf7f1c31182f	2	orders	16651	public	orders	CALL	SCALL	CALL	sp_MSins_publicorders_5f0d3778	sp_MSupd_publicorders_5f0d3778	\N	sp_MSdel_publicorders_5f0d3778	{"article_id":"5f0d3778-9c06-4468-9149-cf7f1c31182f","publication":"whole","name":"orders","source_id":16651,"schema":"public","table":"orders","columns":[{"number":1,"name":"id","type_text":"integer","type_code":23,"type_modifier":-1,"is_nullable":false,"key_ordinal":1,"value_type_text":"integer","has_deterministic_collation":true},{"number":3,"name":"qty","type_text":"integer","type_code":23,"type_modifier":-1,"is_nullable":true,"key_ordinal":null,"value_type_text":"integer","has_deterministic_collation":true}],"insert":{"call_format":"CALL","procedure":null},"update":{"call_format":"SCALL","procedure":null},"delete":{"call_format":"CALL","procedure":null},"insert_procedure":"sp_MSins_publicorders_5f0d3778","update_procedure":"sp_MSupd_publicorders_5f0d3778","delete_procedure":"sp_MSdel_publicorders_5f0d3778","before_images":"full","has_all_columns":false,"generated_columns":[],"filter_clause":null,"is_partitioned":false,"key_updates":"update"}
\.


--
-- Data for Name: MSdistribution_agents; Type: TABLE DATA; Schema: distribution; Owner: postgres
--

COPY distribution."MSdistribution_agents" (id, publication_id, subscriber, constraints, resumptions, subscription_guid) FROM stdin;
1	1	postgresql://postgres@/subscriber?host={server}&port=5432	\N	0	553d5e91-ea41-45b6-a85e-8c1d3529a56e
2	1	sqlite:///{folder}/subscriber.db	\N	0	aa3b740d-f023-4f67-bf93-7db05859682b
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

COPY distribution."MSpublications" (publication_id, publication, publisher_db, created_at) FROM stdin;
1	shop	publisher	2026-11-25 08:23:26.087495+00
2	whole	publisher	2026-11-25 08:23:26.277154+00
\.


--
-- Data for Name: MSrepl_errors; Type: TABLE DATA; Schema: distribution; Owner: postgres
--

COPY distribution."MSrepl_errors" (id, "time", source_name, error_code, error_text, xact_seqno, command_id) FROM stdin;
\.


--
-- Data for Name: MSsubscriptions; Type: TABLE DATA; Schema: distribution; Owner: postgres
--

COPY distribution."MSsubscriptions" (agent_id, article_id, sync_type, subscription_seqno, status, subscription_time) FROM stdin;
1	50e20115-f581-4770-b183-1ff25233c7b5	automatic	39242664	2	2026-11-25 08:23:26.397671+00
1	f388c3de-33ea-4f48-a8e2-14f240abdf9d	automatic	39242664	2	2026-11-25 08:23:26.397671+00
2	50e20115-f581-4770-b183-1ff25233c7b5	replication-support-only	39404352	2	2026-11-25 08:23:26.642258+00
2	f388c3de-33ea-4f48-a8e2-14f240abdf9d	replication-support-only	39404352	2	2026-11-25 08:23:26.642258+00
\.


--
-- Data for Name: MStracer_history; Type: TABLE DATA; Schema: distribution; Owner: postgres
--

COPY distribution."MStracer_history" (parent_tracer_id, agent_id, subscriber_commit) FROM stdin;
1	1	2026-11-25 08:23:27.457496+00
1	2	2026-11-25 08:23:27.571541+00
\.


--
-- Data for Name: MStracer_tokens; Type: TABLE DATA; Schema: distribution; Owner: postgres
--

COPY distribution."MStracer_tokens" (tracer_id, publication_id, posted_at, publisher_commit, distributor_commit) FROM stdin;
1	1	2026-11-25 08:23:26.70248+00	2026-11-25 08:23:26.719462+00	2026-11-25 08:23:27.23825+00
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
-- Data for Name: features; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.features (feature) FROM stdin;
replication
\.


--
-- Data for Name: identities; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.identities (source_table_id, identity, identity_index, captured_table_id) FROM stdin;
16651	d	\N	16651
16658	d	\N	16658
\.


--
-- Data for Name: members; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.members (member_id, feature, name, source_table_id, source_schema, source_name, publication_entry_id) FROM stdin;
f388c3de-33ea-4f48-a8e2-14f240abdf9d	replication	shop/orders	16651	public	orders	16828
50e20115-f581-4770-b183-1ff25233c7b5	replication	shop/odd, table	16658	public	odd, table	16829
5f0d3778-9c06-4468-9149-cf7f1c31182f	replication	whole/orders	16651	public	orders	16828
\.


--
-- Data for Name: source; Type: TABLE DATA; Schema: rowtide; Owner: postgres
--

COPY rowtide.source (source_id, system_identifier, publication, publication_id, slot, log_store, lake, created_at) FROM stdin;
71c71cec-b592-4676-b5ac-5e360cff5f2a	7712021800426485771	rowtide_16650	16697	rowtide_16650	{folder}/publisher/log	{folder}/publisher	2026-11-25 08:23:25.939525+00
\.


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
-- Name: identities_source_table_id_seq; Type: SEQUENCE SET; Schema: rowtide; Owner: postgres
--

SELECT pg_catalog.setval('rowtide.identities_source_table_id_seq', 1, false);


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
-- Name: MSrepl_errors MSrepl_errors_pkey; Type: CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSrepl_errors"
    ADD CONSTRAINT "MSrepl_errors_pkey" PRIMARY KEY (id);


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
-- Name: ix_distribution_MSdistribution_history_agent_id; Type: INDEX; Schema: distribution; Owner: postgres
--

CREATE INDEX "ix_distribution_MSdistribution_history_agent_id" ON distribution."MSdistribution_history" USING btree (agent_id);


--
-- Name: ix_distribution_MSrepl_errors_time; Type: INDEX; Schema: distribution; Owner: postgres
--

CREATE INDEX "ix_distribution_MSrepl_errors_time" ON distribution."MSrepl_errors" USING btree ("time");


--
-- Name: MSarticles MSarticles_publication_id_fkey; Type: FK CONSTRAINT; Schema: distribution; Owner: postgres
--

ALTER TABLE ONLY distribution."MSarticles"
    ADD CONSTRAINT "MSarticles_publication_id_fkey" FOREIGN KEY (publication_id) REFERENCES distribution."MSpublications"(publication_id);


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
-- Name: rowtide_16650; Type: PUBLICATION; Schema: -; Owner: postgres
--

CREATE PUBLICATION rowtide_16650 WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true);


ALTER PUBLICATION rowtide_16650 OWNER TO postgres;

--
-- Name: rowtide_16650 odd, table; Type: PUBLICATION TABLE; Schema: public; Owner: postgres
--

ALTER PUBLICATION rowtide_16650 ADD TABLE ONLY public."odd, table";


--
-- Name: rowtide_16650 orders; Type: PUBLICATION TABLE; Schema: public; Owner: postgres
--

ALTER PUBLICATION rowtide_16650 ADD TABLE ONLY public.orders;


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


