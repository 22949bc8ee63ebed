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
-- Name: SCHEMA rowtide_subscriber; Type: COMMENT; Schema: -; Owner: postgres
--

COMMENT ON SCHEMA rowtide_subscriber IS 'rowtide 20d625b7dac913cc';


--
-- Name: execute_10(text, text[]); Type: FUNCTION; Schema: rowtide_subscriber; Owner: postgres
--

CREATE FUNCTION rowtide_subscriber.execute_10(text, text[] DEFAULT NULL::text[]) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $_$declare changed bigint; begin if current_user operator(pg_catalog.<>) 'postgres'::pg_catalog.name then raise exception using message = 'the function no longer runs as postgres'; end if; if $2 is null then execute $1; else execute $1 using $2; end if; get diagnostics changed = row_count; return changed; end$_$;


ALTER FUNCTION rowtide_subscriber.execute_10(text, text[]) OWNER TO postgres;

--
-- Name: query_10(text, text[]); Type: FUNCTION; Schema: rowtide_subscriber; Owner: postgres
--

CREATE FUNCTION rowtide_subscriber.query_10(text, text[] DEFAULT NULL::text[]) RETURNS SETOF record
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $_$begin if current_user operator(pg_catalog.<>) 'postgres'::pg_catalog.name then raise exception using message = 'the function no longer runs as postgres'; end if; return query execute $1 using $2; end$_$;


ALTER FUNCTION rowtide_subscriber.query_10(text, text[]) OWNER TO postgres;

--
-- Name: sp_MSbeginbatch(text, bigint, bigint); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSbeginbatch"(IN guid text, IN agent_epoch bigint, IN known bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
begin
    perform from rowtide_subscriber."MSreplication_subscriptions" s
    where s.subscription_guid = guid and s.epoch = agent_epoch and s.transaction_timestamp = known for no key update;
    if not found then
        raise exception using errcode = 'RT001', message = coalesce((
            select format('epoch %s, position %s, agent %s', s.epoch, s.transaction_timestamp, s.agent)
            from rowtide_subscriber."MSreplication_subscriptions" s where s.subscription_guid = guid), 'no such subscription');
    end if;
    call rowtide_subscriber."sp_MSmarkorigin"(guid);
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSbeginbatch"(IN guid text, IN agent_epoch bigint, IN known bigint) OWNER TO postgres;

--
-- Name: sp_MSbeginstream(text, bigint, bigint); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSbeginstream"(IN guid text, IN agent_epoch bigint, IN known bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
begin
    -- Beside the stream that holds the row; an agent that takes over waits for both.
    perform from rowtide_subscriber."MSreplication_subscriptions" s
    where s.subscription_guid = guid and s.epoch = agent_epoch and s.transaction_timestamp = known for key share;
    if not found then
        raise exception using errcode = 'RT001', message = 'another epoch or position';
    end if;
    call rowtide_subscriber."sp_MSmarkorigin"(guid);
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSbeginstream"(IN guid text, IN agent_epoch bigint, IN known bigint) OWNER TO postgres;

--
-- Name: sp_MSdel_publicodd, table(integer); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSdel_publicodd, table"(IN pkc1 integer)
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
begin
    delete from "public"."odd, table" t where t."id" operator(pg_catalog.=) pkc1;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('DELETE', 'public.odd, table', pg_catalog.concat('id = ', pkc1));
    end if;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSdel_publicodd, table"(IN pkc1 integer) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSdel_publicodd, table"(IN pkc1 integer); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSdel_publicodd, table"(IN pkc1 integer) IS 'rowtide: article faad871a-1325-4155-85e2-bab523cf938f';


--
-- Name: sp_MSdel_publicorders(integer); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSdel_publicorders"(IN pkc1 integer)
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
begin
    delete from "public"."orders" t where t."id" operator(pg_catalog.=) pkc1;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('DELETE', 'public.orders', pg_catalog.concat('id = ', pkc1));
    end if;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSdel_publicorders"(IN pkc1 integer) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSdel_publicorders"(IN pkc1 integer); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSdel_publicorders"(IN pkc1 integer) IS 'rowtide: article 95e2faa9-7d56-47f5-bfd2-22a875f97a07';


--
-- Name: sp_MSdelarray_publicodd, table(integer[]); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSdelarray_publicodd, table"(IN pkc1 integer[])
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
declare
    changed bigint;
begin
    delete from "public"."odd, table" t using pg_catalog.unnest(array(select pg_catalog.generate_series(1, pg_catalog.cardinality(pkc1)))) g (i) where t."id" operator(pg_catalog.=) pkc1[g.i];
    get diagnostics changed = row_count;
    if changed operator(pg_catalog.<>) pg_catalog.cardinality(pkc1) then
        perform rowtide_subscriber."sp_MSreplraiserror"('DELETE', 'public.odd, table', pg_catalog.concat('id = ', null));
    end if;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSdelarray_publicodd, table"(IN pkc1 integer[]) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSdelarray_publicodd, table"(IN pkc1 integer[]); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSdelarray_publicodd, table"(IN pkc1 integer[]) IS 'rowtide: article faad871a-1325-4155-85e2-bab523cf938f';


--
-- Name: sp_MSdelarray_publicorders(integer[]); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSdelarray_publicorders"(IN pkc1 integer[])
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
declare
    changed bigint;
begin
    delete from "public"."orders" t using pg_catalog.unnest(array(select pg_catalog.generate_series(1, pg_catalog.cardinality(pkc1)))) g (i) where t."id" operator(pg_catalog.=) pkc1[g.i];
    get diagnostics changed = row_count;
    if changed operator(pg_catalog.<>) pg_catalog.cardinality(pkc1) then
        perform rowtide_subscriber."sp_MSreplraiserror"('DELETE', 'public.orders', pg_catalog.concat('id = ', null));
    end if;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSdelarray_publicorders"(IN pkc1 integer[]) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSdelarray_publicorders"(IN pkc1 integer[]); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSdelarray_publicorders"(IN pkc1 integer[]) IS 'rowtide: article 95e2faa9-7d56-47f5-bfd2-22a875f97a07';


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
    snapshot_end bigint,
    streams integer DEFAULT 1 NOT NULL,
    decided text
);


ALTER TABLE rowtide_subscriber."MSreplication_subscriptions" OWNER TO postgres;

--
-- Name: sp_MSendbatch(text, bigint); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSendbatch"(IN guid text, IN reached bigint)
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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
    SET search_path TO '$user', 'public', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSins_publicodd, table"(IN c1 integer, IN c2 text, IN c3 integer, IN c4 text) IS 'rowtide: article faad871a-1325-4155-85e2-bab523cf938f';


--
-- Name: sp_MSins_publicorders(integer, text, integer); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSins_publicorders"(IN c1 integer, IN c2 text, IN c3 integer)
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSins_publicorders"(IN c1 integer, IN c2 text, IN c3 integer) IS 'rowtide: article 95e2faa9-7d56-47f5-bfd2-22a875f97a07';


--
-- Name: sp_MSinsarray_publicodd, table(integer[], text[], integer[], text[]); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSinsarray_publicodd, table"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN c4 text[])
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
declare
    changed bigint;
begin
    insert into "public"."odd, table" ("id", "a, b", "per cent %", "größe=") overriding system value select c1[g.i], c2[g.i], c3[g.i], c4[g.i] from pg_catalog.unnest(array(select pg_catalog.generate_series(1, pg_catalog.cardinality(c1)))) g (i);
    get diagnostics changed = row_count;
    if changed operator(pg_catalog.<>) pg_catalog.cardinality(c1) then
        perform rowtide_subscriber."sp_MSreplraiserror"('INSERT', 'public.odd, table', pg_catalog.concat('id = ', null));
    end if;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSinsarray_publicodd, table"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN c4 text[]) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSinsarray_publicodd, table"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN c4 text[]); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSinsarray_publicodd, table"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN c4 text[]) IS 'rowtide: article faad871a-1325-4155-85e2-bab523cf938f';


--
-- Name: sp_MSinsarray_publicorders(integer[], text[], integer[]); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSinsarray_publicorders"(IN c1 integer[], IN c2 text[], IN c3 integer[])
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
declare
    changed bigint;
begin
    insert into "public"."orders" ("id", "item", "qty") overriding system value select c1[g.i], c2[g.i], c3[g.i] from pg_catalog.unnest(array(select pg_catalog.generate_series(1, pg_catalog.cardinality(c1)))) g (i);
    get diagnostics changed = row_count;
    if changed operator(pg_catalog.<>) pg_catalog.cardinality(c1) then
        perform rowtide_subscriber."sp_MSreplraiserror"('INSERT', 'public.orders', pg_catalog.concat('id = ', null));
    end if;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSinsarray_publicorders"(IN c1 integer[], IN c2 text[], IN c3 integer[]) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSinsarray_publicorders"(IN c1 integer[], IN c2 text[], IN c3 integer[]); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSinsarray_publicorders"(IN c1 integer[], IN c2 text[], IN c3 integer[]) IS 'rowtide: article 95e2faa9-7d56-47f5-bfd2-22a875f97a07';


--
-- Name: sp_MSmarkorigin(text); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSmarkorigin"(IN guid text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
begin
    perform pg_logical_emit_message(true, 'rowtide.origin', json_build_object(
        'subscription', o.subscription_guid, 'originator', o.originator, 'secret', o.secret)::text)
    from rowtide_subscriber."MSorigins" o where o.subscription_guid = guid;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSmarkorigin"(IN guid text) OWNER TO postgres;

--
-- Name: sp_MSreplraiserror(text, text, text); Type: FUNCTION; Schema: rowtide_subscriber; Owner: postgres
--

CREATE FUNCTION rowtide_subscriber."sp_MSreplraiserror"(command text, table_name text, key text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
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
-- Name: sp_MSrequirerows(bigint, bigint, text, text, text); Type: FUNCTION; Schema: rowtide_subscriber; Owner: postgres
--

CREATE FUNCTION rowtide_subscriber."sp_MSrequirerows"(changed bigint, wanted bigint, command text, table_name text, key text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
begin
    if changed is distinct from wanted then
        perform rowtide_subscriber."sp_MSreplraiserror"(command, table_name, key);
    end if;
end
$$;


ALTER FUNCTION rowtide_subscriber."sp_MSrequirerows"(changed bigint, wanted bigint, command text, table_name text, key text) OWNER TO postgres;

--
-- Name: sp_MSupd_publicodd, table(integer, text, integer, text, integer, bytea); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSupd_publicodd, table"(IN c1 integer, IN c2 text, IN c3 integer, IN c4 text, IN pkc1 integer, IN bitmap bytea)
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
begin
    if pg_catalog.get_bit(bitmap, 0) operator(pg_catalog.=) 1 then
        update "public"."odd, table" t set "id" = case when pg_catalog.get_bit(bitmap, 0) operator(pg_catalog.=) 1 then c1 else t."id" end, "a, b" = case when pg_catalog.get_bit(bitmap, 1) operator(pg_catalog.=) 1 then c2 else t."a, b" end, "per cent %" = case when pg_catalog.get_bit(bitmap, 2) operator(pg_catalog.=) 1 then c3 else t."per cent %" end, "größe=" = case when pg_catalog.get_bit(bitmap, 3) operator(pg_catalog.=) 1 then c4 else t."größe=" end where t."id" operator(pg_catalog.=) pkc1;
    else
        update "public"."odd, table" t set "a, b" = case when pg_catalog.get_bit(bitmap, 1) operator(pg_catalog.=) 1 then c2 else t."a, b" end, "per cent %" = case when pg_catalog.get_bit(bitmap, 2) operator(pg_catalog.=) 1 then c3 else t."per cent %" end, "größe=" = case when pg_catalog.get_bit(bitmap, 3) operator(pg_catalog.=) 1 then c4 else t."größe=" end where t."id" operator(pg_catalog.=) pkc1;
    end if;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'public.odd, table', pg_catalog.concat('id = ', pkc1));
    end if;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSupd_publicodd, table"(IN c1 integer, IN c2 text, IN c3 integer, IN c4 text, IN pkc1 integer, IN bitmap bytea) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSupd_publicodd, table"(IN c1 integer, IN c2 text, IN c3 integer, IN c4 text, IN pkc1 integer, IN bitmap bytea); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSupd_publicodd, table"(IN c1 integer, IN c2 text, IN c3 integer, IN c4 text, IN pkc1 integer, IN bitmap bytea) IS 'rowtide: article faad871a-1325-4155-85e2-bab523cf938f';


--
-- Name: sp_MSupd_publicorders(integer, text, integer, integer, bytea); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSupd_publicorders"(IN c1 integer, IN c2 text, IN c3 integer, IN pkc1 integer, IN bitmap bytea)
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
begin
    if pg_catalog.get_bit(bitmap, 0) operator(pg_catalog.=) 1 then
        update "public"."orders" t set "id" = case when pg_catalog.get_bit(bitmap, 0) operator(pg_catalog.=) 1 then c1 else t."id" end, "item" = case when pg_catalog.get_bit(bitmap, 1) operator(pg_catalog.=) 1 then c2 else t."item" end, "qty" = case when pg_catalog.get_bit(bitmap, 2) operator(pg_catalog.=) 1 then c3 else t."qty" end where t."id" operator(pg_catalog.=) pkc1;
    else
        update "public"."orders" t set "item" = case when pg_catalog.get_bit(bitmap, 1) operator(pg_catalog.=) 1 then c2 else t."item" end, "qty" = case when pg_catalog.get_bit(bitmap, 2) operator(pg_catalog.=) 1 then c3 else t."qty" end where t."id" operator(pg_catalog.=) pkc1;
    end if;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'public.orders', pg_catalog.concat('id = ', pkc1));
    end if;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSupd_publicorders"(IN c1 integer, IN c2 text, IN c3 integer, IN pkc1 integer, IN bitmap bytea) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSupd_publicorders"(IN c1 integer, IN c2 text, IN c3 integer, IN pkc1 integer, IN bitmap bytea); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSupd_publicorders"(IN c1 integer, IN c2 text, IN c3 integer, IN pkc1 integer, IN bitmap bytea) IS 'rowtide: article 95e2faa9-7d56-47f5-bfd2-22a875f97a07';


--
-- Name: sp_MSupdarray_publicodd, table(integer[], text[], integer[], text[], integer[], bytea[]); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSupdarray_publicodd, table"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN c4 text[], IN pkc1 integer[], IN bitmap bytea[])
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
declare
    changed bigint;
begin
    update "public"."odd, table" t set "a, b" = case when pg_catalog.get_bit(bitmap[g.i], 1) operator(pg_catalog.=) 1 then c2[g.i] else t."a, b" end, "per cent %" = case when pg_catalog.get_bit(bitmap[g.i], 2) operator(pg_catalog.=) 1 then c3[g.i] else t."per cent %" end, "größe=" = case when pg_catalog.get_bit(bitmap[g.i], 3) operator(pg_catalog.=) 1 then c4[g.i] else t."größe=" end from pg_catalog.unnest(array(select pg_catalog.generate_series(1, pg_catalog.cardinality(c1)))) g (i) where t."id" operator(pg_catalog.=) pkc1[g.i];
    get diagnostics changed = row_count;
    if changed operator(pg_catalog.<>) pg_catalog.cardinality(c1) then
        perform rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'public.odd, table', pg_catalog.concat('id = ', null));
    end if;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSupdarray_publicodd, table"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN c4 text[], IN pkc1 integer[], IN bitmap bytea[]) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSupdarray_publicodd, table"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN c4 text[], IN pkc1 integer[], IN bitmap bytea[]); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSupdarray_publicodd, table"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN c4 text[], IN pkc1 integer[], IN bitmap bytea[]) IS 'rowtide: article faad871a-1325-4155-85e2-bab523cf938f';


--
-- Name: sp_MSupdarray_publicorders(integer[], text[], integer[], integer[], bytea[]); Type: PROCEDURE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE PROCEDURE rowtide_subscriber."sp_MSupdarray_publicorders"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN pkc1 integer[], IN bitmap bytea[])
    LANGUAGE plpgsql
    SET search_path TO '$user', 'public', 'pg_temp'
    SET standard_conforming_strings TO 'on'
    AS $$
#variable_conflict use_variable
declare
    changed bigint;
begin
    update "public"."orders" t set "item" = case when pg_catalog.get_bit(bitmap[g.i], 1) operator(pg_catalog.=) 1 then c2[g.i] else t."item" end, "qty" = case when pg_catalog.get_bit(bitmap[g.i], 2) operator(pg_catalog.=) 1 then c3[g.i] else t."qty" end from pg_catalog.unnest(array(select pg_catalog.generate_series(1, pg_catalog.cardinality(c1)))) g (i) where t."id" operator(pg_catalog.=) pkc1[g.i];
    get diagnostics changed = row_count;
    if changed operator(pg_catalog.<>) pg_catalog.cardinality(c1) then
        perform rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'public.orders', pg_catalog.concat('id = ', null));
    end if;
end
$$;


ALTER PROCEDURE rowtide_subscriber."sp_MSupdarray_publicorders"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN pkc1 integer[], IN bitmap bytea[]) OWNER TO postgres;

--
-- Name: PROCEDURE "sp_MSupdarray_publicorders"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN pkc1 integer[], IN bitmap bytea[]); Type: COMMENT; Schema: rowtide_subscriber; Owner: postgres
--

COMMENT ON PROCEDURE rowtide_subscriber."sp_MSupdarray_publicorders"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN pkc1 integer[], IN bitmap bytea[]) IS 'rowtide: article 95e2faa9-7d56-47f5-bfd2-22a875f97a07';


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
-- Name: MSconflicts; Type: TABLE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE TABLE rowtide_subscriber."MSconflicts" (
    id bigint NOT NULL,
    subscription_guid text NOT NULL,
    logged_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    kind text NOT NULL,
    resolution text NOT NULL,
    table_name text NOT NULL,
    operation text NOT NULL,
    xact_seqno bigint NOT NULL,
    command_id bigint NOT NULL,
    old_row jsonb,
    new_row jsonb,
    present_rows jsonb NOT NULL,
    commit_time timestamp with time zone,
    present_times jsonb NOT NULL
);


ALTER TABLE rowtide_subscriber."MSconflicts" OWNER TO postgres;

--
-- Name: MSconflicts_id_seq; Type: SEQUENCE; Schema: rowtide_subscriber; Owner: postgres
--

ALTER TABLE rowtide_subscriber."MSconflicts" ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME rowtide_subscriber."MSconflicts_id_seq"
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: MSdeleted_keys; Type: TABLE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE TABLE rowtide_subscriber."MSdeleted_keys" (
    table_name text NOT NULL,
    key text[] NOT NULL,
    refreshed bigint DEFAULT 0 NOT NULL,
    committed_us bigint,
    originator text
);


ALTER TABLE rowtide_subscriber."MSdeleted_keys" OWNER TO postgres;

--
-- Name: MSorigins; Type: TABLE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE TABLE rowtide_subscriber."MSorigins" (
    subscription_guid text NOT NULL,
    secret text DEFAULT replace(((gen_random_uuid())::text || (gen_random_uuid())::text), '-'::text, ''::text) NOT NULL,
    originator text NOT NULL,
    originators text[] NOT NULL,
    tables text[] NOT NULL,
    confirmed_at timestamp with time zone
);


ALTER TABLE rowtide_subscriber."MSorigins" OWNER TO postgres;

--
-- Name: MSreleased_values; Type: TABLE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE TABLE rowtide_subscriber."MSreleased_values" (
    table_name text NOT NULL,
    columns text NOT NULL,
    value text[] NOT NULL,
    committed_us bigint,
    origin bigint,
    refreshed bigint DEFAULT 0 NOT NULL
);


ALTER TABLE rowtide_subscriber."MSreleased_values" OWNER TO postgres;

--
-- Name: MSrepairs; Type: TABLE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE TABLE rowtide_subscriber."MSrepairs" (
    subscription_guid text NOT NULL,
    repair_id text NOT NULL,
    ordinal integer NOT NULL,
    record text NOT NULL
);


ALTER TABLE rowtide_subscriber."MSrepairs" OWNER TO postgres;

--
-- Name: MSreplication_articles; Type: TABLE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE TABLE rowtide_subscriber."MSreplication_articles" (
    subscription_guid text NOT NULL,
    article_id text NOT NULL,
    definition text NOT NULL,
    joined_as text
);


ALTER TABLE rowtide_subscriber."MSreplication_articles" OWNER TO postgres;

--
-- Name: MSrestorations; Type: TABLE; Schema: rowtide_subscriber; Owner: postgres
--

CREATE TABLE rowtide_subscriber."MSrestorations" (
    subscription_guid text NOT NULL,
    place bigint NOT NULL,
    article_id text NOT NULL,
    until text NOT NULL,
    statement text NOT NULL
);


ALTER TABLE rowtide_subscriber."MSrestorations" OWNER TO postgres;

--
-- Name: MSrestorations_place_seq; Type: SEQUENCE; Schema: rowtide_subscriber; Owner: postgres
--

ALTER TABLE rowtide_subscriber."MSrestorations" ALTER COLUMN place ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME rowtide_subscriber."MSrestorations_place_seq"
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


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
    statement text NOT NULL,
    article_id text
);


ALTER TABLE rowtide_subscriber."MSsnapshot_statements" OWNER TO postgres;

--
-- Name: rowtide_format; Type: VIEW; Schema: rowtide_subscriber; Owner: postgres
--

CREATE VIEW rowtide_subscriber.rowtide_format AS
 SELECT 1 AS number,
    1 AS least_reader,
    1 AS least_writer;


ALTER VIEW rowtide_subscriber.rowtide_format OWNER TO postgres;

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
-- Data for Name: MSconflicts; Type: TABLE DATA; Schema: rowtide_subscriber; Owner: postgres
--

COPY rowtide_subscriber."MSconflicts" (id, subscription_guid, logged_at, kind, resolution, table_name, operation, xact_seqno, command_id, old_row, new_row, present_rows, commit_time, present_times) FROM stdin;
\.


--
-- Data for Name: MSdeleted_keys; Type: TABLE DATA; Schema: rowtide_subscriber; Owner: postgres
--

COPY rowtide_subscriber."MSdeleted_keys" (table_name, key, refreshed, committed_us, originator) FROM stdin;
\.


--
-- Data for Name: MSorigins; Type: TABLE DATA; Schema: rowtide_subscriber; Owner: postgres
--

COPY rowtide_subscriber."MSorigins" (subscription_guid, secret, originator, originators, tables, confirmed_at) FROM stdin;
dd42db69-458c-4d1c-ae6b-fa2e2c5e705e	df2912dfd27347f38e1638ded5a19bd2a628d29dedd841b7a08b6ca948f75570	7713621732150596111/16774	{7713621732150596111/16774}	{"public.odd, table",public.orders}	\N
\.


--
-- Data for Name: MSreleased_values; Type: TABLE DATA; Schema: rowtide_subscriber; Owner: postgres
--

COPY rowtide_subscriber."MSreleased_values" (table_name, columns, value, committed_us, origin, refreshed) FROM stdin;
\.


--
-- Data for Name: MSrepairs; Type: TABLE DATA; Schema: rowtide_subscriber; Owner: postgres
--

COPY rowtide_subscriber."MSrepairs" (subscription_guid, repair_id, ordinal, record) FROM stdin;
\.


--
-- Data for Name: MSreplication_articles; Type: TABLE DATA; Schema: rowtide_subscriber; Owner: postgres
--

COPY rowtide_subscriber."MSreplication_articles" (subscription_guid, article_id, definition, joined_as) FROM stdin;
dd42db69-458c-4d1c-ae6b-fa2e2c5e705e	faad871a-1325-4155-85e2-bab523cf938f	{"article_id":"faad871a-1325-4155-85e2-bab523cf938f","publication":"shop","name":"odd, table","source_id":16782,"schema":"public","table":"odd, table","columns":[{"number":1,"name":"id","type_text":"integer","type_code":23,"type_modifier":-1,"is_nullable":false,"key_ordinal":1,"value_type_text":"integer","has_deterministic_collation":true},{"number":2,"name":"a, b","type_text":"text","type_code":25,"type_modifier":-1,"is_nullable":true,"key_ordinal":null,"value_type_text":"text","has_deterministic_collation":true},{"number":3,"name":"per cent %","type_text":"integer","type_code":23,"type_modifier":-1,"is_nullable":true,"key_ordinal":null,"value_type_text":"integer","has_deterministic_collation":true},{"number":4,"name":"größe=","type_text":"text","type_code":25,"type_modifier":-1,"is_nullable":true,"key_ordinal":null,"value_type_text":"text","has_deterministic_collation":true}],"insert":{"call_format":"CALL","procedure":null},"update":{"call_format":"SCALL","procedure":null},"delete":{"call_format":"CALL","procedure":null},"insert_procedure":"sp_MSins_publicodd, table","update_procedure":"sp_MSupd_publicodd, table","delete_procedure":"sp_MSdel_publicodd, table","before_images":"full","has_all_columns":true,"generated_columns":[],"filter_clause":null,"is_partitioned":false,"key_updates":"update","moved_partitions":"copy","left_out":[],"defined_at":0,"joined_at":0,"generated":[]}	\N
dd42db69-458c-4d1c-ae6b-fa2e2c5e705e	95e2faa9-7d56-47f5-bfd2-22a875f97a07	{"article_id":"95e2faa9-7d56-47f5-bfd2-22a875f97a07","publication":"shop","name":"orders","source_id":16775,"schema":"public","table":"orders","columns":[{"number":1,"name":"id","type_text":"integer","type_code":23,"type_modifier":-1,"is_nullable":false,"key_ordinal":1,"value_type_text":"integer","has_deterministic_collation":true},{"number":2,"name":"item","type_text":"text","type_code":25,"type_modifier":-1,"is_nullable":true,"key_ordinal":null,"value_type_text":"text","has_deterministic_collation":true},{"number":3,"name":"qty","type_text":"integer","type_code":23,"type_modifier":-1,"is_nullable":true,"key_ordinal":null,"value_type_text":"integer","has_deterministic_collation":true}],"insert":{"call_format":"CALL","procedure":null},"update":{"call_format":"SCALL","procedure":null},"delete":{"call_format":"CALL","procedure":null},"insert_procedure":"sp_MSins_publicorders","update_procedure":"sp_MSupd_publicorders","delete_procedure":"sp_MSdel_publicorders","before_images":"full","has_all_columns":true,"generated_columns":[],"filter_clause":"qty > 0 or qty is null","is_partitioned":false,"key_updates":"update","moved_partitions":"copy","left_out":[],"defined_at":0,"joined_at":0,"generated":[]}	\N
\.


--
-- Data for Name: MSreplication_subscriptions; Type: TABLE DATA; Schema: rowtide_subscriber; Owner: postgres
--

COPY rowtide_subscriber."MSreplication_subscriptions" (subscription_guid, publication, publisher_system, transaction_timestamp, batch, epoch, agent, "time", snapshot_status, snapshot_end, streams, decided) FROM stdin;
dd42db69-458c-4d1c-ae6b-fa2e2c5e705e	shop	7713621732150596111	40386673	1	2	vm pid 4531	2026-11-29 15:51:55.778574+00	handing over	40389472	1	\N
\.


--
-- Data for Name: MSrestorations; Type: TABLE DATA; Schema: rowtide_subscriber; Owner: postgres
--

COPY rowtide_subscriber."MSrestorations" (subscription_guid, place, article_id, until, statement) FROM stdin;
\.


--
-- Data for Name: MSsnapshot_chunks; Type: TABLE DATA; Schema: rowtide_subscriber; Owner: postgres
--

COPY rowtide_subscriber."MSsnapshot_chunks" (subscription_guid, article_id, chunk, low, high, transaction_snapshot, generation) FROM stdin;
dd42db69-458c-4d1c-ae6b-fa2e2c5e705e	faad871a-1325-4155-85e2-bab523cf938f	0	\N	\N	827:827:	16782
dd42db69-458c-4d1c-ae6b-fa2e2c5e705e	95e2faa9-7d56-47f5-bfd2-22a875f97a07	0	\N	\N	827:827:	16775
\.


--
-- Data for Name: MSsnapshot_statements; Type: TABLE DATA; Schema: rowtide_subscriber; Owner: postgres
--

COPY rowtide_subscriber."MSsnapshot_statements" (subscription_guid, place, statement, article_id) FROM stdin;
\.


--
-- Name: MSconflicts_id_seq; Type: SEQUENCE SET; Schema: rowtide_subscriber; Owner: postgres
--

SELECT pg_catalog.setval('rowtide_subscriber."MSconflicts_id_seq"', 1, false);


--
-- Name: MSrestorations_place_seq; Type: SEQUENCE SET; Schema: rowtide_subscriber; Owner: postgres
--

SELECT pg_catalog.setval('rowtide_subscriber."MSrestorations_place_seq"', 1, false);


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
-- Name: MSconflicts MSconflicts_pkey; Type: CONSTRAINT; Schema: rowtide_subscriber; Owner: postgres
--

ALTER TABLE ONLY rowtide_subscriber."MSconflicts"
    ADD CONSTRAINT "MSconflicts_pkey" PRIMARY KEY (id);


--
-- Name: MSdeleted_keys MSdeleted_keys_pkey; Type: CONSTRAINT; Schema: rowtide_subscriber; Owner: postgres
--

ALTER TABLE ONLY rowtide_subscriber."MSdeleted_keys"
    ADD CONSTRAINT "MSdeleted_keys_pkey" PRIMARY KEY (table_name, key);


--
-- Name: MSorigins MSorigins_pkey; Type: CONSTRAINT; Schema: rowtide_subscriber; Owner: postgres
--

ALTER TABLE ONLY rowtide_subscriber."MSorigins"
    ADD CONSTRAINT "MSorigins_pkey" PRIMARY KEY (subscription_guid);


--
-- Name: MSreleased_values MSreleased_values_pkey; Type: CONSTRAINT; Schema: rowtide_subscriber; Owner: postgres
--

ALTER TABLE ONLY rowtide_subscriber."MSreleased_values"
    ADD CONSTRAINT "MSreleased_values_pkey" PRIMARY KEY (table_name, columns, value);


--
-- Name: MSrepairs MSrepairs_pkey; Type: CONSTRAINT; Schema: rowtide_subscriber; Owner: postgres
--

ALTER TABLE ONLY rowtide_subscriber."MSrepairs"
    ADD CONSTRAINT "MSrepairs_pkey" PRIMARY KEY (subscription_guid, repair_id, ordinal);


--
-- Name: MSreplication_articles MSreplication_articles_pkey; Type: CONSTRAINT; Schema: rowtide_subscriber; Owner: postgres
--

ALTER TABLE ONLY rowtide_subscriber."MSreplication_articles"
    ADD CONSTRAINT "MSreplication_articles_pkey" PRIMARY KEY (subscription_guid, article_id);


--
-- Name: MSreplication_subscriptions MSreplication_subscriptions_pkey; Type: CONSTRAINT; Schema: rowtide_subscriber; Owner: postgres
--

ALTER TABLE ONLY rowtide_subscriber."MSreplication_subscriptions"
    ADD CONSTRAINT "MSreplication_subscriptions_pkey" PRIMARY KEY (subscription_guid);


--
-- Name: MSrestorations MSrestorations_pkey; Type: CONSTRAINT; Schema: rowtide_subscriber; Owner: postgres
--

ALTER TABLE ONLY rowtide_subscriber."MSrestorations"
    ADD CONSTRAINT "MSrestorations_pkey" PRIMARY KEY (subscription_guid, place);


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
-- Name: MSconflicts_place; Type: INDEX; Schema: rowtide_subscriber; Owner: postgres
--

CREATE UNIQUE INDEX "MSconflicts_place" ON rowtide_subscriber."MSconflicts" USING btree (subscription_guid, xact_seqno, command_id, resolution);


--
-- Name: MSrepairs MSrepairs_subscription_guid_fkey; Type: FK CONSTRAINT; Schema: rowtide_subscriber; Owner: postgres
--

ALTER TABLE ONLY rowtide_subscriber."MSrepairs"
    ADD CONSTRAINT "MSrepairs_subscription_guid_fkey" FOREIGN KEY (subscription_guid) REFERENCES rowtide_subscriber."MSreplication_subscriptions"(subscription_guid) ON DELETE CASCADE;


--
-- Name: MSreplication_articles MSreplication_articles_subscription_guid_fkey; Type: FK CONSTRAINT; Schema: rowtide_subscriber; Owner: postgres
--

ALTER TABLE ONLY rowtide_subscriber."MSreplication_articles"
    ADD CONSTRAINT "MSreplication_articles_subscription_guid_fkey" FOREIGN KEY (subscription_guid) REFERENCES rowtide_subscriber."MSreplication_subscriptions"(subscription_guid) ON DELETE CASCADE;


--
-- Name: MSrestorations MSrestorations_subscription_guid_fkey; Type: FK CONSTRAINT; Schema: rowtide_subscriber; Owner: postgres
--

ALTER TABLE ONLY rowtide_subscriber."MSrestorations"
    ADD CONSTRAINT "MSrestorations_subscription_guid_fkey" FOREIGN KEY (subscription_guid) REFERENCES rowtide_subscriber."MSreplication_subscriptions"(subscription_guid) ON DELETE CASCADE;


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
-- Name: FUNCTION execute_10(text, text[]); Type: ACL; Schema: rowtide_subscriber; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_subscriber.execute_10(text, text[]) FROM PUBLIC;


--
-- Name: FUNCTION query_10(text, text[]); Type: ACL; Schema: rowtide_subscriber; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_subscriber.query_10(text, text[]) FROM PUBLIC;


--
-- Name: PROCEDURE "sp_MSbeginbatch"(IN guid text, IN agent_epoch bigint, IN known bigint); Type: ACL; Schema: rowtide_subscriber; Owner: postgres
--

REVOKE ALL ON PROCEDURE rowtide_subscriber."sp_MSbeginbatch"(IN guid text, IN agent_epoch bigint, IN known bigint) FROM PUBLIC;


--
-- Name: PROCEDURE "sp_MSbeginstream"(IN guid text, IN agent_epoch bigint, IN known bigint); Type: ACL; Schema: rowtide_subscriber; Owner: postgres
--

REVOKE ALL ON PROCEDURE rowtide_subscriber."sp_MSbeginstream"(IN guid text, IN agent_epoch bigint, IN known bigint) FROM PUBLIC;


--
-- Name: PROCEDURE "sp_MSdel_publicodd, table"(IN pkc1 integer); Type: ACL; Schema: rowtide_subscriber; Owner: postgres
--

REVOKE ALL ON PROCEDURE rowtide_subscriber."sp_MSdel_publicodd, table"(IN pkc1 integer) FROM PUBLIC;


--
-- Name: PROCEDURE "sp_MSdel_publicorders"(IN pkc1 integer); Type: ACL; Schema: rowtide_subscriber; Owner: postgres
--

REVOKE ALL ON PROCEDURE rowtide_subscriber."sp_MSdel_publicorders"(IN pkc1 integer) FROM PUBLIC;


--
-- Name: PROCEDURE "sp_MSdelarray_publicodd, table"(IN pkc1 integer[]); Type: ACL; Schema: rowtide_subscriber; Owner: postgres
--

REVOKE ALL ON PROCEDURE rowtide_subscriber."sp_MSdelarray_publicodd, table"(IN pkc1 integer[]) FROM PUBLIC;


--
-- Name: PROCEDURE "sp_MSdelarray_publicorders"(IN pkc1 integer[]); Type: ACL; Schema: rowtide_subscriber; Owner: postgres
--

REVOKE ALL ON PROCEDURE rowtide_subscriber."sp_MSdelarray_publicorders"(IN pkc1 integer[]) FROM PUBLIC;


--
-- Name: PROCEDURE "sp_MSendbatch"(IN guid text, IN reached bigint); Type: ACL; Schema: rowtide_subscriber; Owner: postgres
--

REVOKE ALL ON PROCEDURE rowtide_subscriber."sp_MSendbatch"(IN guid text, IN reached bigint) FROM PUBLIC;


--
-- Name: PROCEDURE "sp_MSins_publicodd, table"(IN c1 integer, IN c2 text, IN c3 integer, IN c4 text); Type: ACL; Schema: rowtide_subscriber; Owner: postgres
--

REVOKE ALL ON PROCEDURE rowtide_subscriber."sp_MSins_publicodd, table"(IN c1 integer, IN c2 text, IN c3 integer, IN c4 text) FROM PUBLIC;


--
-- Name: PROCEDURE "sp_MSins_publicorders"(IN c1 integer, IN c2 text, IN c3 integer); Type: ACL; Schema: rowtide_subscriber; Owner: postgres
--

REVOKE ALL ON PROCEDURE rowtide_subscriber."sp_MSins_publicorders"(IN c1 integer, IN c2 text, IN c3 integer) FROM PUBLIC;


--
-- Name: PROCEDURE "sp_MSinsarray_publicodd, table"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN c4 text[]); Type: ACL; Schema: rowtide_subscriber; Owner: postgres
--

REVOKE ALL ON PROCEDURE rowtide_subscriber."sp_MSinsarray_publicodd, table"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN c4 text[]) FROM PUBLIC;


--
-- Name: PROCEDURE "sp_MSinsarray_publicorders"(IN c1 integer[], IN c2 text[], IN c3 integer[]); Type: ACL; Schema: rowtide_subscriber; Owner: postgres
--

REVOKE ALL ON PROCEDURE rowtide_subscriber."sp_MSinsarray_publicorders"(IN c1 integer[], IN c2 text[], IN c3 integer[]) FROM PUBLIC;


--
-- Name: PROCEDURE "sp_MSmarkorigin"(IN guid text); Type: ACL; Schema: rowtide_subscriber; Owner: postgres
--

REVOKE ALL ON PROCEDURE rowtide_subscriber."sp_MSmarkorigin"(IN guid text) FROM PUBLIC;


--
-- Name: FUNCTION "sp_MSreplraiserror"(command text, table_name text, key text); Type: ACL; Schema: rowtide_subscriber; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_subscriber."sp_MSreplraiserror"(command text, table_name text, key text) FROM PUBLIC;


--
-- Name: FUNCTION "sp_MSrequirerows"(changed bigint, wanted bigint, command text, table_name text, key text); Type: ACL; Schema: rowtide_subscriber; Owner: postgres
--

REVOKE ALL ON FUNCTION rowtide_subscriber."sp_MSrequirerows"(changed bigint, wanted bigint, command text, table_name text, key text) FROM PUBLIC;


--
-- Name: PROCEDURE "sp_MSupd_publicodd, table"(IN c1 integer, IN c2 text, IN c3 integer, IN c4 text, IN pkc1 integer, IN bitmap bytea); Type: ACL; Schema: rowtide_subscriber; Owner: postgres
--

REVOKE ALL ON PROCEDURE rowtide_subscriber."sp_MSupd_publicodd, table"(IN c1 integer, IN c2 text, IN c3 integer, IN c4 text, IN pkc1 integer, IN bitmap bytea) FROM PUBLIC;


--
-- Name: PROCEDURE "sp_MSupd_publicorders"(IN c1 integer, IN c2 text, IN c3 integer, IN pkc1 integer, IN bitmap bytea); Type: ACL; Schema: rowtide_subscriber; Owner: postgres
--

REVOKE ALL ON PROCEDURE rowtide_subscriber."sp_MSupd_publicorders"(IN c1 integer, IN c2 text, IN c3 integer, IN pkc1 integer, IN bitmap bytea) FROM PUBLIC;


--
-- Name: PROCEDURE "sp_MSupdarray_publicodd, table"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN c4 text[], IN pkc1 integer[], IN bitmap bytea[]); Type: ACL; Schema: rowtide_subscriber; Owner: postgres
--

REVOKE ALL ON PROCEDURE rowtide_subscriber."sp_MSupdarray_publicodd, table"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN c4 text[], IN pkc1 integer[], IN bitmap bytea[]) FROM PUBLIC;


--
-- Name: PROCEDURE "sp_MSupdarray_publicorders"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN pkc1 integer[], IN bitmap bytea[]); Type: ACL; Schema: rowtide_subscriber; Owner: postgres
--

REVOKE ALL ON PROCEDURE rowtide_subscriber."sp_MSupdarray_publicorders"(IN c1 integer[], IN c2 text[], IN c3 integer[], IN pkc1 integer[], IN bitmap bytea[]) FROM PUBLIC;


--
-- PostgreSQL database dump complete
--


