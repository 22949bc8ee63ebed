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
-- Name: rowtide_subscriber; Type: SCHEMA; Schema: -; Owner: postgres
--

CREATE SCHEMA rowtide_subscriber;


ALTER SCHEMA rowtide_subscriber OWNER TO postgres;

--
-- Name: sp_MSbeginbatch(text, bigint, bigint); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSbeginbatch"(IN guid text, IN agent_epoch bigint, IN known bigint)
    LANGUAGE plpgsql
    AS $$
begin
    perform from rowtide_subscriber."MSreplication_subscriptions" s
    where s.subscription_guid = guid and s.epoch = agent_epoch and s.transaction_timestamp = known for update;
    if not found then
        raise exception using errcode = 'RT001', message = coalesce((
            select format('epoch %s, position %s, agent %s', s.epoch, s.transaction_timestamp, s.agent)
            from rowtide_subscriber."MSreplication_subscriptions" s where s.subscription_guid = guid), 'no such subscription');
    end if;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSbeginbatch"(IN guid text, IN agent_epoch bigint, IN known bigint) OWNER TO postgres;

--
-- Name: sp_MSdel_publicodd, table(integer); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSdel_publicodd, table"(IN pkc1 integer)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
begin
    delete from "public"."odd, table" t where t."id" = pkc1;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('DELETE', 'public.odd, table', concat('id = ', pkc1));
    end if;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSdel_publicodd, table"(IN pkc1 integer) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSdel_publicodd, table"(IN pkc1 integer); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSdel_publicodd, table"(IN pkc1 integer) IS 'rowtide: article 50e20115-f581-4770-b183-1ff25233c7b5';


--
-- Name: sp_MSdel_publicorders(integer); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSdel_publicorders"(IN pkc1 integer)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
begin
    delete from "public"."orders" t where t."id" = pkc1;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('DELETE', 'public.orders', concat('id = ', pkc1));
    end if;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSdel_publicorders"(IN pkc1 integer) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSdel_publicorders"(IN pkc1 integer); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSdel_publicorders"(IN pkc1 integer) IS 'rowtide: article f388c3de-33ea-4f48-a8e2-14f240abdf9d';


--
-- Name: sp_MSdelarray_publicodd, table(integer[]); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSdelarray_publicodd, table"(IN pkc1 integer[])
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
declare
    changed bigint;
begin
    delete from "public"."odd, table" t using unnest(array(select generate_series(1, cardinality(pkc1)))) g (i) where t."id" = pkc1[g.i];
    get diagnostics changed = row_count;
    if changed <> cardinality(pkc1) then
        perform rowtide_subscriber."sp_MSreplraiserror"('DELETE', 'public.odd, table', concat('id = ', null));
    end if;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSdelarray_publicodd, table"(IN pkc1 integer[]) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSdelarray_publicodd, table"(IN pkc1 integer[]); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSdelarray_publicodd, table"(IN pkc1 integer[]) IS 'rowtide: article 50e20115-f581-4770-b183-1ff25233c7b5';


--
-- Name: sp_MSdelarray_publicorders(integer[]); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSdelarray_publicorders"(IN pkc1 integer[])
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
declare
    changed bigint;
begin
    delete from "public"."orders" t using unnest(array(select generate_series(1, cardinality(pkc1)))) g (i) where t."id" = pkc1[g.i];
    get diagnostics changed = row_count;
    if changed <> cardinality(pkc1) then
        perform rowtide_subscriber."sp_MSreplraiserror"('DELETE', 'public.orders', concat('id = ', null));
    end if;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSdelarray_publicorders"(IN pkc1 integer[]) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSdelarray_publicorders"(IN pkc1 integer[]); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSdelarray_publicorders"(IN pkc1 integer[]) IS 'rowtide: article f388c3de-33ea-4f48-a8e2-14f240abdf9d';


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: MSreplication_subscriptions; Type: TABLE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE TABLE rowtide_subscriber."MSreplication_subscriptions" (
    subscription_guid text NOT NULL,
    publication text NOT NULL,
    publisher_system text NOT NULL,
    transaction_timestamp bigint NOT NULL,
    batch bigint DEFAULT 0 NOT NULL,
    epoch bigint DEFAULT 0 NOT NULL,
    agent text,
    "time" timestamp with time zone DEFAULT now() NOT NULL,
    snapshot_status text DEFAULT 'delivered'::text NOT NULL,
    snapshot_end bigint
);


ALTER TABLE rowtide_subscriber."MSreplication_subscriptions" OWNER TO postgres;

--
-- Name: sp_MSendbatch(text, bigint); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSendbatch"(IN guid text, IN reached bigint)
    LANGUAGE sql
    BEGIN ATOMIC
 UPDATE rowtide_subscriber."MSreplication_subscriptions" s SET transaction_timestamp = "sp_MSendbatch".reached, batch = (s.batch + 1), "time" = clock_timestamp()
   WHERE (s.subscription_guid = "sp_MSendbatch".guid);
END;


ALTER PROCEDURE rowtide_subscriber."sp_MSendbatch"(IN guid text, IN reached bigint) OWNER TO postgres;

--
-- Name: sp_MSins_publicodd, table(integer, text, integer, text); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSins_publicodd, table"(IN c1 integer, IN c2 text, IN c3 integer, IN c4 text)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
begin
    insert into "public"."odd, table" ("id", "a, b", "per cent %", "größe=") overriding system value values (c1, c2, c3, c4);
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSins_publicodd, table"(IN c1 integer, IN c2 text, IN c3 integer, IN c4 text) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSins_publicodd, table"(IN c1 integer, IN c2 text, IN c3 integer, IN c4 text); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSins_publicodd, table"(IN c1 integer, IN c2 text, IN c3 integer, IN c4 text) IS 'rowtide: article 50e20115-f581-4770-b183-1ff25233c7b5';


--
-- Name: sp_MSins_publicorders(integer, text, integer); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSins_publicorders"(IN c1 integer, IN c2 text, IN c3 integer)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
begin
    insert into "public"."orders" ("id", "item", "qty") overriding system value values (c1, c2, c3);
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSins_publicorders"(IN c1 integer, IN c2 text, IN c3 integer) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSins_publicorders"(IN c1 integer, IN c2 text, IN c3 integer); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSins_publicorders"(IN c1 integer, IN c2 text, IN c3 integer) IS 'rowtide: article f388c3de-33ea-4f48-a8e2-14f240abdf9d';


--
-- Name: sp_MSinsarray_publicodd, table(integer[], text[], integer[], text[]); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSinsarray_publicodd, table"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN c4 text[])
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
declare
    changed bigint;
begin
    insert into "public"."odd, table" ("id", "a, b", "per cent %", "größe=") overriding system value select c1[g.i], c2[g.i], c3[g.i], c4[g.i] from unnest(array(select generate_series(1, cardinality(c1)))) g (i);
    get diagnostics changed = row_count;
    if changed <> cardinality(c1) then
        perform rowtide_subscriber."sp_MSreplraiserror"('INSERT', 'public.odd, table', concat('id = ', null));
    end if;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSinsarray_publicodd, table"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN c4 text[]) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSinsarray_publicodd, table"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN c4 text[]); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSinsarray_publicodd, table"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN c4 text[]) IS 'rowtide: article 50e20115-f581-4770-b183-1ff25233c7b5';


--
-- Name: sp_MSinsarray_publicorders(integer[], text[], integer[]); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSinsarray_publicorders"(IN c1 integer[], IN c2 text[], IN c3 integer[])
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
declare
    changed bigint;
begin
    insert into "public"."orders" ("id", "item", "qty") overriding system value select c1[g.i], c2[g.i], c3[g.i] from unnest(array(select generate_series(1, cardinality(c1)))) g (i);
    get diagnostics changed = row_count;
    if changed <> cardinality(c1) then
        perform rowtide_subscriber."sp_MSreplraiserror"('INSERT', 'public.orders', concat('id = ', null));
    end if;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSinsarray_publicorders"(IN c1 integer[], IN c2 text[], IN c3 integer[]) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSinsarray_publicorders"(IN c1 integer[], IN c2 text[], IN c3 integer[]); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSinsarray_publicorders"(IN c1 integer[], IN c2 text[], IN c3 integer[]) IS 'rowtide: article f388c3de-33ea-4f48-a8e2-14f240abdf9d';


--
-- Name: sp_MSreplraiserror(text, text, text); Type: FUNCTION; Schema: rowtide_subscriber; Owner: postgres
--

CREATE FUNCTION rowtide_subscriber."sp_MSreplraiserror"(command text, table_name text, key text) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    if command = 'DELETE' and table_name = any(nullif(current_setting('rowtide.cascaded', true), '')::text[]) then
        return;
    end if;
    raise exception using errcode = '20598', table = table_name, detail = key, message = format(
        'The row was not found at the Subscriber when applying the replicated %s command for table %s with key %s.',
        command, table_name, key);
end
$$;


ALTER FUNCTION rowtide_subscriber."sp_MSreplraiserror"(command text, table_name text, key text) OWNER TO postgres;

--
-- Name: sp_MStruncate(regclass); Type: FUNCTION; Schema: rowtide_subscriber; Owner: postgres
--

CREATE FUNCTION rowtide_subscriber."sp_MStruncate"(truncated regclass) RETURNS void
    LANGUAGE plpgsql
    AS $$
begin
    if exists (select from pg_constraint c
               where c.confrelid = truncated and c.conrelid <> truncated and c.contype = 'f') then
        execute format('delete from %s', truncated);
    else
        execute format('truncate %s', truncated);
    end if;
end
$$;


ALTER FUNCTION rowtide_subscriber."sp_MStruncate"(truncated regclass) OWNER TO postgres;

--
-- Name: sp_MSupd_publicodd, table(integer, text, integer, text, integer, bytea); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSupd_publicodd, table"(IN c1 integer, IN c2 text, IN c3 integer, IN c4 text, IN pkc1 integer, IN bitmap bytea)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
begin
    if get_bit(bitmap, 0) = 1 then
        update "public"."odd, table" t set "id" = case when get_bit(bitmap, 0) = 1 then c1 else t."id" end, "a, b" = case when get_bit(bitmap, 1) = 1 then c2 else t."a, b" end, "per cent %" = case when get_bit(bitmap, 2) = 1 then c3 else t."per cent %" end, "größe=" = case when get_bit(bitmap, 3) = 1 then c4 else t."größe=" end where t."id" = pkc1;
    else
        update "public"."odd, table" t set "a, b" = case when get_bit(bitmap, 1) = 1 then c2 else t."a, b" end, "per cent %" = case when get_bit(bitmap, 2) = 1 then c3 else t."per cent %" end, "größe=" = case when get_bit(bitmap, 3) = 1 then c4 else t."größe=" end where t."id" = pkc1;
    end if;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'public.odd, table', concat('id = ', pkc1));
    end if;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSupd_publicodd, table"(IN c1 integer, IN c2 text, IN c3 integer, IN c4 text, IN pkc1 integer, IN bitmap bytea) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSupd_publicodd, table"(IN c1 integer, IN c2 text, IN c3 integer, IN c4 text, IN pkc1 integer, IN bitmap bytea); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSupd_publicodd, table"(IN c1 integer, IN c2 text, IN c3 integer, IN c4 text, IN pkc1 integer, IN bitmap bytea) IS 'rowtide: article 50e20115-f581-4770-b183-1ff25233c7b5';


--
-- Name: sp_MSupd_publicorders(integer, text, integer, integer, bytea); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSupd_publicorders"(IN c1 integer, IN c2 text, IN c3 integer, IN pkc1 integer, IN bitmap bytea)
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
begin
    if get_bit(bitmap, 0) = 1 then
        update "public"."orders" t set "id" = case when get_bit(bitmap, 0) = 1 then c1 else t."id" end, "item" = case when get_bit(bitmap, 1) = 1 then c2 else t."item" end, "qty" = case when get_bit(bitmap, 2) = 1 then c3 else t."qty" end where t."id" = pkc1;
    else
        update "public"."orders" t set "item" = case when get_bit(bitmap, 1) = 1 then c2 else t."item" end, "qty" = case when get_bit(bitmap, 2) = 1 then c3 else t."qty" end where t."id" = pkc1;
    end if;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'public.orders', concat('id = ', pkc1));
    end if;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSupd_publicorders"(IN c1 integer, IN c2 text, IN c3 integer, IN pkc1 integer, IN bitmap bytea) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSupd_publicorders"(IN c1 integer, IN c2 text, IN c3 integer, IN pkc1 integer, IN bitmap bytea); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSupd_publicorders"(IN c1 integer, IN c2 text, IN c3 integer, IN pkc1 integer, IN bitmap bytea) IS 'rowtide: article f388c3de-33ea-4f48-a8e2-14f240abdf9d';


--
-- Name: sp_MSupdarray_publicodd, table(integer[], text[], integer[], text[], integer[], bytea[]); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSupdarray_publicodd, table"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN c4 text[], IN pkc1 integer[], IN bitmap bytea[])
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
declare
    changed bigint;
begin
    update "public"."odd, table" t set "a, b" = case when get_bit(bitmap[g.i], 1) = 1 then c2[g.i] else t."a, b" end, "per cent %" = case when get_bit(bitmap[g.i], 2) = 1 then c3[g.i] else t."per cent %" end, "größe=" = case when get_bit(bitmap[g.i], 3) = 1 then c4[g.i] else t."größe=" end from unnest(array(select generate_series(1, cardinality(c1)))) g (i) where t."id" = pkc1[g.i];
    get diagnostics changed = row_count;
    if changed <> cardinality(c1) then
        perform rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'public.odd, table', concat('id = ', null));
    end if;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSupdarray_publicodd, table"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN c4 text[], IN pkc1 integer[], IN bitmap bytea[]) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSupdarray_publicodd, table"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN c4 text[], IN pkc1 integer[], IN bitmap bytea[]); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSupdarray_publicodd, table"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN c4 text[], IN pkc1 integer[], IN bitmap bytea[]) IS 'rowtide: article 50e20115-f581-4770-b183-1ff25233c7b5';


--
-- Name: sp_MSupdarray_publicorders(integer[], text[], integer[], integer[], bytea[]); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSupdarray_publicorders"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN pkc1 integer[], IN bitmap bytea[])
    LANGUAGE plpgsql
    AS $$
#variable_conflict use_variable
declare
    changed bigint;
begin
    update "public"."orders" t set "item" = case when get_bit(bitmap[g.i], 1) = 1 then c2[g.i] else t."item" end, "qty" = case when get_bit(bitmap[g.i], 2) = 1 then c3[g.i] else t."qty" end from unnest(array(select generate_series(1, cardinality(c1)))) g (i) where t."id" = pkc1[g.i];
    get diagnostics changed = row_count;
    if changed <> cardinality(c1) then
        perform rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'public.orders', concat('id = ', null));
    end if;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSupdarray_publicorders"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN pkc1 integer[], IN bitmap bytea[]) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSupdarray_publicorders"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN pkc1 integer[], IN bitmap bytea[]); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSupdarray_publicorders"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN pkc1 integer[], IN bitmap bytea[]) IS 'rowtide: article f388c3de-33ea-4f48-a8e2-14f240abdf9d';


--
-- Name: odd, table; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public."odd, table" (
    id integer NOT NULL,
    "a, b" text,
    "per cent %" integer,
    "größe=" text
);


ALTER TABLE public."odd, table" OWNER TO postgres;

--
-- Name: orders; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.orders (
    id integer NOT NULL,
    item text,
    qty integer
);


ALTER TABLE public.orders OWNER TO postgres;

--
-- Name: MSsnapshot_chunks; Type: TABLE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE TABLE rowtide_subscriber."MSsnapshot_chunks" (
    subscription_guid text NOT NULL,
    article_id text NOT NULL,
    chunk integer NOT NULL,
    low text[],
    high text[],
    transaction_snapshot text,
    generation bigint
);


ALTER TABLE rowtide_subscriber."MSsnapshot_chunks" OWNER TO postgres;

--
-- Name: MSsnapshot_statements; Type: TABLE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE TABLE rowtide_subscriber."MSsnapshot_statements" (
    subscription_guid text NOT NULL,
    place integer NOT NULL,
    statement text NOT NULL
);


ALTER TABLE rowtide_subscriber."MSsnapshot_statements" OWNER TO postgres;

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
\.


--
-- Data for Name: MSreplication_subscriptions; Type: TABLE DATA; Schema: rowtide_subscriber; Owner: postgres
--

COPY rowtide_subscriber."MSreplication_subscriptions" (subscription_guid, publication, publisher_system, transaction_timestamp, batch, epoch, agent, "time", snapshot_status, snapshot_end) FROM stdin;
553d5e91-ea41-45b6-a85e-8c1d3529a56e	shop	7712021800426485771	39406521	1	2	vm pid 1839	2026-11-25 08:23:27.456266+00	handing over	39408600
\.


--
-- Data for Name: MSsnapshot_chunks; Type: TABLE DATA; Schema: rowtide_subscriber; Owner: postgres
--

COPY rowtide_subscriber."MSsnapshot_chunks" (subscription_guid, article_id, chunk, low, high, transaction_snapshot, generation) FROM stdin;
553d5e91-ea41-45b6-a85e-8c1d3529a56e	f388c3de-33ea-4f48-a8e2-14f240abdf9d	0	\N	\N	829:829:	16651
553d5e91-ea41-45b6-a85e-8c1d3529a56e	50e20115-f581-4770-b183-1ff25233c7b5	0	\N	\N	829:829:	16658
\.


--
-- Data for Name: MSsnapshot_statements; Type: TABLE DATA; Schema: rowtide_subscriber; Owner: postgres
--

COPY rowtide_subscriber."MSsnapshot_statements" (subscription_guid, place, statement) FROM stdin;
\.


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
-- Name: MSreplication_subscriptions MSreplication_subscriptions_pkey; Type: CONSTRAINT; Schema: rowtide_subscriber; Owner: postgres
--

ALTER TABLE ONLY rowtide_subscriber."MSreplication_subscriptions"
    ADD CONSTRAINT "MSreplication_subscriptions_pkey" PRIMARY KEY (subscription_guid);


--
-- Name: MSsnapshot_chunks MSsnapshot_chunks_pkey; Type: CONSTRAINT; Schema: rowtide_subscriber; Owner: postgres
--

ALTER TABLE ONLY rowtide_subscriber."MSsnapshot_chunks"
    ADD CONSTRAINT "MSsnapshot_chunks_pkey" PRIMARY KEY (subscription_guid, article_id, chunk);


--
-- Name: MSsnapshot_statements MSsnapshot_statements_pkey; Type: CONSTRAINT; Schema: rowtide_subscriber; Owner: postgres
--

ALTER TABLE ONLY rowtide_subscriber."MSsnapshot_statements"
    ADD CONSTRAINT "MSsnapshot_statements_pkey" PRIMARY KEY (subscription_guid, place);


--
-- Name: MSsnapshot_chunks MSsnapshot_chunks_subscription_guid_fkey; Type: FK CONSTRAINT; Schema: rowtide_subscriber; Owner: postgres
--

ALTER TABLE ONLY rowtide_subscriber."MSsnapshot_chunks"
    ADD CONSTRAINT "MSsnapshot_chunks_subscription_guid_fkey" FOREIGN KEY (subscription_guid) REFERENCES rowtide_subscriber."MSreplication_subscriptions"(subscription_guid) ON DELETE CASCADE;


--
-- Name: MSsnapshot_statements MSsnapshot_statements_subscription_guid_fkey; Type: FK CONSTRAINT; Schema: rowtide_subscriber; Owner: postgres
--

ALTER TABLE ONLY rowtide_subscriber."MSsnapshot_statements"
    ADD CONSTRAINT "MSsnapshot_statements_subscription_guid_fkey" FOREIGN KEY (subscription_guid) REFERENCES rowtide_subscriber."MSreplication_subscriptions"(subscription_guid) ON DELETE CASCADE;


--
-- PostgreSQL database dump complete
--


