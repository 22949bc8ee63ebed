-- insert, orders
insert into "sales"."orders" ("id", "quantity", "note") overriding system value values ($1::integer, $2::integer, $3::character varying(20))

-- update, orders
with changed as (update "sales"."orders" set "id" = $1::integer, "quantity" = $2::integer, "note" = $3::character varying(20) where "id" = $4::integer returning 1) select rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'sales.orders', concat('id = ', $4::integer)) where not exists (select from changed)

-- delete, orders
with changed as (delete from "sales"."orders" where "id" = $1::integer returning 1) select rowtide_subscriber."sp_MSreplraiserror"('DELETE', 'sales.orders', concat('id = ', $1::integer)) where not exists (select from changed)

-- insert, composite key
insert into "sales"."lines" ("line", "quantity", "of_order") overriding system value values ($1::integer, $2::numeric(10,2), $3::bigint)

-- update, composite key
with changed as (update "sales"."lines" set "line" = $1::integer, "quantity" = $2::numeric(10,2), "of_order" = $3::bigint where "of_order" = $4::bigint and "line" = $5::integer returning 1) select rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'sales.lines', concat('of_order = ', $4::bigint, ', line = ', $5::integer)) where not exists (select from changed)

-- delete, composite key
with changed as (delete from "sales"."lines" where "of_order" = $1::bigint and "line" = $2::integer returning 1) select rowtide_subscriber."sp_MSreplraiserror"('DELETE', 'sales.lines', concat('of_order = ', $1::bigint, ', line = ', $2::integer)) where not exists (select from changed)

-- insert, odd names
insert into "Sales:eu"."""O'Brien""" ("it's ""the"" $1", "100%") overriding system value values ($1::text, $2::public."Größe")

-- update, odd names
with changed as (update "Sales:eu"."""O'Brien""" set "it's ""the"" $1" = $1::text, "100%" = $2::public."Größe" where "it's ""the"" $1" = $3::text returning 1) select rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'Sales:eu."O''Brien"', concat('it''s "the" $1 = ', $3::text)) where not exists (select from changed)

-- delete, odd names
with changed as (delete from "Sales:eu"."""O'Brien""" where "it's ""the"" $1" = $1::text returning 1) select rowtide_subscriber."sp_MSreplraiserror"('DELETE', 'Sales:eu."O''Brien"', concat('it''s "the" $1 = ', $1::text)) where not exists (select from changed)

-- insert, no key
insert into "public"."events" ("at", "what") overriding system value values ($1::timestamp with time zone, $2::jsonb)

-- update, chosen columns
with changed as (update "sales"."orders" set "id" = $1::integer, "note" = $2::character varying(20) where "id" = $3::integer returning 1) select rowtide_subscriber."sp_MSreplraiserror"('UPDATE', 'sales.orders', concat('id = ', $3::integer)) where not exists (select from changed)

-- truncate
select rowtide_subscriber."sp_MStruncate"('"Sales:eu"."""O''Brien"""')
