-- insert
create or replace procedure "rowtide_subscriber"."sp_MSins_salesorders"(c1 integer, c2 integer, c3 character varying(20)) language plpgsql set search_path from current set standard_conforming_strings = on as $body$
#variable_conflict use_variable
begin
    insert into "sales"."orders" ("id", "quantity", "note") overriding system value values (c1, c2, c3);
end
$body$

-- insert, no key
create or replace procedure "rowtide_subscriber"."sp_MSins_publicevents"(c1 timestamp with time zone, c2 jsonb) language plpgsql set search_path from current set standard_conforming_strings = on as $body$
#variable_conflict use_variable
begin
    insert into "public"."events" ("at", "what") overriding system value values (c1, c2);
end
$body$

-- insert, chosen columns
create or replace procedure "rowtide_subscriber"."sp_MSins_salesorders"(c1 integer, c2 character varying(20)) language plpgsql set search_path from current set standard_conforming_strings = on as $body$
#variable_conflict use_variable
begin
    insert into "sales"."orders" ("id", "note") overriding system value values (c1, c2);
end
$body$

-- SCALL update
create or replace procedure "rowtide_subscriber"."sp_MSupd_salesorders"(c1 integer, c2 integer, c3 character varying(20), pkc1 integer, bitmap bytea) language plpgsql set search_path from current set standard_conforming_strings = on as $body$
#variable_conflict use_variable
begin
    if pg_catalog.get_bit(bitmap, 0) operator(pg_catalog.=) 1 then
        update "sales"."orders" t set "id" = case when pg_catalog.get_bit(bitmap, 0) operator(pg_catalog.=) 1 then c1 else t."id" end, "quantity" = case when pg_catalog.get_bit(bitmap, 1) operator(pg_catalog.=) 1 then c2 else t."quantity" end, "note" = case when pg_catalog.get_bit(bitmap, 2) operator(pg_catalog.=) 1 then c3 else t."note" end where t."id" operator(pg_catalog.=) pkc1;
    else
        update "sales"."orders" t set "quantity" = case when pg_catalog.get_bit(bitmap, 1) operator(pg_catalog.=) 1 then c2 else t."quantity" end, "note" = case when pg_catalog.get_bit(bitmap, 2) operator(pg_catalog.=) 1 then c3 else t."note" end where t."id" operator(pg_catalog.=) pkc1;
    end if;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'sales.orders', pg_catalog.concat('id = ', pkc1));
    end if;
end
$body$

-- SCALL update, composite key
create or replace procedure "rowtide_subscriber"."sp_MSupd_saleslines"(c1 integer, c2 numeric(10,2), c3 bigint, pkc1 bigint, pkc2 integer, bitmap bytea) language plpgsql set search_path from current set standard_conforming_strings = on as $body$
#variable_conflict use_variable
begin
    if pg_catalog.get_bit(bitmap, 0) operator(pg_catalog.=) 1 or pg_catalog.get_bit(bitmap, 2) operator(pg_catalog.=) 1 then
        update "sales"."lines" t set "line" = case when pg_catalog.get_bit(bitmap, 0) operator(pg_catalog.=) 1 then c1 else t."line" end, "quantity" = case when pg_catalog.get_bit(bitmap, 1) operator(pg_catalog.=) 1 then c2 else t."quantity" end, "of_order" = case when pg_catalog.get_bit(bitmap, 2) operator(pg_catalog.=) 1 then c3 else t."of_order" end where t."of_order" operator(pg_catalog.=) pkc1 and t."line" operator(pg_catalog.=) pkc2;
    else
        update "sales"."lines" t set "quantity" = case when pg_catalog.get_bit(bitmap, 1) operator(pg_catalog.=) 1 then c2 else t."quantity" end where t."of_order" operator(pg_catalog.=) pkc1 and t."line" operator(pg_catalog.=) pkc2;
    end if;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'sales.lines', pg_catalog.concat('of_order = ', pkc1, ', line = ', pkc2));
    end if;
end
$body$

-- SCALL update, nothing but a key
create or replace procedure "rowtide_subscriber"."sp_MSupd_salespairs"(c1 integer, c2 integer, pkc1 integer, pkc2 integer, bitmap bytea) language plpgsql set search_path from current set standard_conforming_strings = on as $body$
#variable_conflict use_variable
begin
    update "sales"."pairs" t set "a" = case when pg_catalog.get_bit(bitmap, 0) operator(pg_catalog.=) 1 then c1 else t."a" end, "b" = case when pg_catalog.get_bit(bitmap, 1) operator(pg_catalog.=) 1 then c2 else t."b" end where t."b" operator(pg_catalog.=) pkc1 and t."a" operator(pg_catalog.=) pkc2;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'sales.pairs', pg_catalog.concat('b = ', pkc1, ', a = ', pkc2));
    end if;
end
$body$

-- SCALL update, nine columns
create or replace procedure "rowtide_subscriber"."sp_MSupd_publicnine"(c1 integer, c2 integer, c3 integer, c4 integer, c5 integer, c6 integer, c7 integer, c8 integer, c9 integer, pkc1 integer, bitmap bytea) language plpgsql set search_path from current set standard_conforming_strings = on as $body$
#variable_conflict use_variable
begin
    if pg_catalog.get_bit(bitmap, 8) operator(pg_catalog.=) 1 then
        update "public"."nine" t set "col1" = case when pg_catalog.get_bit(bitmap, 0) operator(pg_catalog.=) 1 then c1 else t."col1" end, "col2" = case when pg_catalog.get_bit(bitmap, 1) operator(pg_catalog.=) 1 then c2 else t."col2" end, "col3" = case when pg_catalog.get_bit(bitmap, 2) operator(pg_catalog.=) 1 then c3 else t."col3" end, "col4" = case when pg_catalog.get_bit(bitmap, 3) operator(pg_catalog.=) 1 then c4 else t."col4" end, "col5" = case when pg_catalog.get_bit(bitmap, 4) operator(pg_catalog.=) 1 then c5 else t."col5" end, "col6" = case when pg_catalog.get_bit(bitmap, 5) operator(pg_catalog.=) 1 then c6 else t."col6" end, "col7" = case when pg_catalog.get_bit(bitmap, 6) operator(pg_catalog.=) 1 then c7 else t."col7" end, "col8" = case when pg_catalog.get_bit(bitmap, 7) operator(pg_catalog.=) 1 then c8 else t."col8" end, "col9" = case when pg_catalog.get_bit(bitmap, 8) operator(pg_catalog.=) 1 then c9 else t."col9" end where t."col9" operator(pg_catalog.=) pkc1;
    else
        update "public"."nine" t set "col1" = case when pg_catalog.get_bit(bitmap, 0) operator(pg_catalog.=) 1 then c1 else t."col1" end, "col2" = case when pg_catalog.get_bit(bitmap, 1) operator(pg_catalog.=) 1 then c2 else t."col2" end, "col3" = case when pg_catalog.get_bit(bitmap, 2) operator(pg_catalog.=) 1 then c3 else t."col3" end, "col4" = case when pg_catalog.get_bit(bitmap, 3) operator(pg_catalog.=) 1 then c4 else t."col4" end, "col5" = case when pg_catalog.get_bit(bitmap, 4) operator(pg_catalog.=) 1 then c5 else t."col5" end, "col6" = case when pg_catalog.get_bit(bitmap, 5) operator(pg_catalog.=) 1 then c6 else t."col6" end, "col7" = case when pg_catalog.get_bit(bitmap, 6) operator(pg_catalog.=) 1 then c7 else t."col7" end, "col8" = case when pg_catalog.get_bit(bitmap, 7) operator(pg_catalog.=) 1 then c8 else t."col8" end where t."col9" operator(pg_catalog.=) pkc1;
    end if;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'public.nine', pg_catalog.concat('col9 = ', pkc1));
    end if;
end
$body$

-- SCALL update, odd names
create or replace procedure "rowtide_subscriber"."sp_MSupd_Sales:eu100% ""O'Brien"" $body$"(c1 text, c2 text, c3 public."Größe", pkc1 text, pkc2 public."Größe", bitmap bytea) language plpgsql set search_path from current set standard_conforming_strings = on as $body_$
#variable_conflict use_variable
begin
    if pg_catalog.get_bit(bitmap, 0) operator(pg_catalog.=) 1 or pg_catalog.get_bit(bitmap, 2) operator(pg_catalog.=) 1 then
        update "Sales:eu"."100% ""O'Brien"" $body$" t set "it's ""the"" $1" = case when pg_catalog.get_bit(bitmap, 0) operator(pg_catalog.=) 1 then c1 else t."it's ""the"" $1" end, "$$ $body$" = case when pg_catalog.get_bit(bitmap, 1) operator(pg_catalog.=) 1 then c2 else t."$$ $body$" end, "c1" = case when pg_catalog.get_bit(bitmap, 2) operator(pg_catalog.=) 1 then c3 else t."c1" end where t."it's ""the"" $1" operator(pg_catalog.=) pkc1 and t."c1" = pkc2;
    else
        update "Sales:eu"."100% ""O'Brien"" $body$" t set "$$ $body$" = case when pg_catalog.get_bit(bitmap, 1) operator(pg_catalog.=) 1 then c2 else t."$$ $body$" end where t."it's ""the"" $1" operator(pg_catalog.=) pkc1 and t."c1" = pkc2;
    end if;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'Sales:eu.100% "O''Brien" $body$', pg_catalog.concat('it''s "the" $1 = ', pkc1, ', c1 = ', pkc2));
    end if;
end
$body_$

-- MCALL update
create or replace procedure "rowtide_subscriber"."sp_MSupd_salesorders"(c1 integer, c2 integer, c3 character varying(20), pkc1 integer, bitmap bytea) language plpgsql set search_path from current set standard_conforming_strings = on as $body$
#variable_conflict use_variable
begin
    if pg_catalog.get_bit(bitmap, 0) operator(pg_catalog.=) 1 then
        update "sales"."orders" t set "id" = case when pg_catalog.get_bit(bitmap, 0) operator(pg_catalog.=) 1 then c1 else t."id" end, "quantity" = case when pg_catalog.get_bit(bitmap, 1) operator(pg_catalog.=) 1 then c2 else t."quantity" end, "note" = case when pg_catalog.get_bit(bitmap, 2) operator(pg_catalog.=) 1 then c3 else t."note" end where t."id" operator(pg_catalog.=) pkc1;
    else
        update "sales"."orders" t set "quantity" = case when pg_catalog.get_bit(bitmap, 1) operator(pg_catalog.=) 1 then c2 else t."quantity" end, "note" = case when pg_catalog.get_bit(bitmap, 2) operator(pg_catalog.=) 1 then c3 else t."note" end where t."id" operator(pg_catalog.=) pkc1;
    end if;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'sales.orders', pg_catalog.concat('id = ', pkc1));
    end if;
end
$body$

-- MCALL update, nothing but a key
create or replace procedure "rowtide_subscriber"."sp_MSupd_salespairs"(c1 integer, c2 integer, pkc1 integer, pkc2 integer, bitmap bytea) language plpgsql set search_path from current set standard_conforming_strings = on as $body$
#variable_conflict use_variable
begin
    update "sales"."pairs" t set "a" = case when pg_catalog.get_bit(bitmap, 0) operator(pg_catalog.=) 1 then c1 else t."a" end, "b" = case when pg_catalog.get_bit(bitmap, 1) operator(pg_catalog.=) 1 then c2 else t."b" end where t."b" operator(pg_catalog.=) pkc1 and t."a" operator(pg_catalog.=) pkc2;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'sales.pairs', pg_catalog.concat('b = ', pkc1, ', a = ', pkc2));
    end if;
end
$body$

-- CALL update
create or replace procedure "rowtide_subscriber"."sp_MSupd_salesorders"(c1 integer, c2 integer, c3 character varying(20), pkc1 integer) language plpgsql set search_path from current set standard_conforming_strings = on as $body$
#variable_conflict use_variable
begin
    update "sales"."orders" t set "id" = c1, "quantity" = c2, "note" = c3 where t."id" operator(pg_catalog.=) pkc1;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'sales.orders', pg_catalog.concat('id = ', pkc1));
    end if;
end
$body$

-- CALL update, composite key
create or replace procedure "rowtide_subscriber"."sp_MSupd_saleslines"(c1 integer, c2 numeric(10,2), c3 bigint, pkc1 bigint, pkc2 integer) language plpgsql set search_path from current set standard_conforming_strings = on as $body$
#variable_conflict use_variable
begin
    update "sales"."lines" t set "line" = c1, "quantity" = c2, "of_order" = c3 where t."of_order" operator(pg_catalog.=) pkc1 and t."line" operator(pg_catalog.=) pkc2;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'sales.lines', pg_catalog.concat('of_order = ', pkc1, ', line = ', pkc2));
    end if;
end
$body$

-- XCALL update
create or replace procedure "rowtide_subscriber"."sp_MSupd_salesorders"(old_c1 integer, old_c2 integer, old_c3 character varying(20), c1 integer, c2 integer, c3 character varying(20)) language plpgsql set search_path from current set standard_conforming_strings = on as $body$
#variable_conflict use_variable
begin
    update "sales"."orders" t set "id" = c1, "quantity" = c2, "note" = c3 where t."id" operator(pg_catalog.=) old_c1;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'sales.orders', pg_catalog.concat('id = ', old_c1));
    end if;
end
$body$

-- XCALL update, composite key
create or replace procedure "rowtide_subscriber"."sp_MSupd_saleslines"(old_c1 integer, old_c2 numeric(10,2), old_c3 bigint, c1 integer, c2 numeric(10,2), c3 bigint) language plpgsql set search_path from current set standard_conforming_strings = on as $body$
#variable_conflict use_variable
begin
    update "sales"."lines" t set "line" = c1, "quantity" = c2, "of_order" = c3 where t."of_order" operator(pg_catalog.=) old_c3 and t."line" operator(pg_catalog.=) old_c1;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'sales.lines', pg_catalog.concat('of_order = ', old_c3, ', line = ', old_c1));
    end if;
end
$body$

-- CALL delete
create or replace procedure "rowtide_subscriber"."sp_MSdel_salesorders"(pkc1 integer) language plpgsql set search_path from current set standard_conforming_strings = on as $body$
#variable_conflict use_variable
begin
    delete from "sales"."orders" t where t."id" operator(pg_catalog.=) pkc1;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('DELETE', 'sales.orders', pg_catalog.concat('id = ', pkc1));
    end if;
end
$body$

-- CALL delete, composite key
create or replace procedure "rowtide_subscriber"."sp_MSdel_saleslines"(pkc1 bigint, pkc2 integer) language plpgsql set search_path from current set standard_conforming_strings = on as $body$
#variable_conflict use_variable
begin
    delete from "sales"."lines" t where t."of_order" operator(pg_catalog.=) pkc1 and t."line" operator(pg_catalog.=) pkc2;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('DELETE', 'sales.lines', pg_catalog.concat('of_order = ', pkc1, ', line = ', pkc2));
    end if;
end
$body$

-- CALL delete, odd names
create or replace procedure "rowtide_subscriber"."sp_MSdel_Sales:eu100% ""O'Brien"" $body$"(pkc1 text, pkc2 public."Größe") language plpgsql set search_path from current set standard_conforming_strings = on as $body_$
#variable_conflict use_variable
begin
    delete from "Sales:eu"."100% ""O'Brien"" $body$" t where t."it's ""the"" $1" operator(pg_catalog.=) pkc1 and t."c1" = pkc2;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('DELETE', 'Sales:eu.100% "O''Brien" $body$', pg_catalog.concat('it''s "the" $1 = ', pkc1, ', c1 = ', pkc2));
    end if;
end
$body_$

-- XCALL delete
create or replace procedure "rowtide_subscriber"."sp_MSdel_salesorders"(old_c1 integer, old_c2 integer, old_c3 character varying(20)) language plpgsql set search_path from current set standard_conforming_strings = on as $body$
#variable_conflict use_variable
begin
    delete from "sales"."orders" t where t."id" operator(pg_catalog.=) old_c1;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('DELETE', 'sales.orders', pg_catalog.concat('id = ', old_c1));
    end if;
end
$body$

-- XCALL delete, composite key
create or replace procedure "rowtide_subscriber"."sp_MSdel_saleslines"(old_c1 integer, old_c2 numeric(10,2), old_c3 bigint) language plpgsql set search_path from current set standard_conforming_strings = on as $body$
#variable_conflict use_variable
begin
    delete from "sales"."lines" t where t."of_order" operator(pg_catalog.=) old_c3 and t."line" operator(pg_catalog.=) old_c1;
    if not found then
        perform rowtide_subscriber."sp_MSreplraiserror"('DELETE', 'sales.lines', pg_catalog.concat('of_order = ', old_c3, ', line = ', old_c1));
    end if;
end
$body$
