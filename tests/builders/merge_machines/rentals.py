"""A shop that rents films, of the kinds that the sample database Pagila has: whatever a schema may be made of."""

from __future__ import annotations

SCHEMA = (
    "create schema rental",
    "create type rental.mpaa_rating as enum ('G', 'PG', 'PG-13', 'R', 'NC-17')",
    "create type rental.address as (street text, town text)",
    "create domain rental.year as integer check (value between 1901 and 2155)",
    "create domain rental.money as numeric(7, 2) not null default 0",
    "create sequence rental.numbers increment by 3",
    (
        "create function rental.group_concat(text, text) returns text immutable language sql as "
        "$$select case when $2 is null then $1 when $1 is null then $2 else $1 || ', ' || $2 end$$"
    ),
    "create table rental.language (id int primary key default nextval('rental.numbers'), name character(20) not null)",
    (
        "create table rental.film (id int primary key default nextval('rental.numbers'), title text not null, "
        "released rental.year, language_id int not null references rental.language deferrable, "
        "rate rental.money, rating rental.mpaa_rating default 'G', features text[], words tsvector, "
        "pages int4range, codes bytea, details jsonb, long_title text generated always as "
        "(upper(title)) stored, changed timestamptz not null default now(), unique (title, language_id))"
    ),
    "create index film_words on rental.film using gist (words)",
    (
        "create function rental.index_words() returns trigger language plpgsql as "
        "$$begin new.words := to_tsvector('pg_catalog.english', new.title); return new; end$$"
    ),
    "create trigger words before insert or update on rental.film for each row execute function rental.index_words()",
    (
        "create table rental.person (id int generated always as identity primary key, name text not null, "
        "lives rental.address, active boolean)"
    ),
    "create table rental.customer (since date, primary key (id)) inherits (rental.person)",
    (
        "create table rental.film_customer (film_id int references rental.film, "
        "customer_id int references rental.customer, primary key (film_id, customer_id))"
    ),
    (
        "create table rental.payment (id int not null default nextval('rental.numbers'), customer_id int not null "
        "references rental.customer, amount rental.money, paid date not null, primary key (id, paid)) "
        "partition by range (paid)"
    ),
    "create table rental.payment_25 partition of rental.payment for values from ('2025-01-01') to ('2026-01-01')",
    (
        "create table rental.payment_26 partition of rental.payment for values from ('2026-01-01') to ('2027-01-01') "
        "partition by range (paid)"
    ),
    "create table rental.payment_26_rest partition of rental.payment_26 default",
    (
        "create view rental.films_of with (security_barrier) as select f.title, f.rating, c.name, "
        "rental.group_concat(f.title, c.name) as both from rental.film f "
        "join rental.film_customer x on x.film_id = f.id join rental.customer c on c.id = x.customer_id"
    ),
    (
        "create materialized view rental.sales as select customer_id, sum(amount) as total from rental.payment "
        "group by customer_id"
    ),
    "create unique index on rental.sales (customer_id)",
    "create view rental.best as select * from rental.sales order by total desc limit 3",
    "create procedure rental.refresh() language sql as 'refresh materialized view rental.sales'",
)
FILLED = (
    "insert into rental.language (name) values ('English'), ('Italian')",
    (
        "insert into rental.film (title, released, language_id, rate, rating, features, pages, codes, details) "
        "select 'Film ''' || i, 1950 + i % 70, (select min(id) from rental.language), i % 9 + 0.99, "
        "(enum_range(null::rental.mpaa_rating))[1 + i % 5], array['Trailers', 'Scene ' || i, null], "
        "int4range(i, i + 10), decode(md5(i::text), 'hex'), jsonb_build_object('n', i, 'a', array[i, null]) "
        "from generate_series(1, 60) i"
    ),
    (
        "insert into rental.customer (id, name, lives, active, since) select i, 'Customer ' || i, "
        "row('Street, \"' || i, null)::rental.address, i % 2 = 0, date '2020-01-01' + i from generate_series(1, 20) i"
    ),
    "insert into rental.person (name) values ('nobody''s customer')",
    (
        "insert into rental.film_customer select f.id, c.id from rental.film f join rental.customer c "
        "on (f.id + c.id) % 7 = 0"
    ),
    (
        "insert into rental.payment (customer_id, amount, paid) select 1 + i % 20, i + 0.5, "
        "date '2025-06-01' + i * 3 from generate_series(1, 150) i"
    ),
    "refresh materialized view rental.sales",
)
CHANGED = (
    "update rental.film set title = title || '!', features = array_append(features, 'Added') where id % 4 = 0",
    "update rental.payment set paid = date '2026-12-31' where amount < 10",
    "update rental.customer set lives = row('Other', 'Town')::rental.address where id > 10",
    "delete from rental.film_customer where customer_id = 3",
    "update rental.person set name = name || ' of all'",
    "insert into rental.payment (customer_id, amount, paid) values (5, 1000, '2026-02-28')",
)
TABLES = (
    "rental.language",
    "rental.film",
    "rental.customer",
    "rental.film_customer",
    "rental.payment",
    "rental.films_of",
)
"""Those whose rows follow; those of a materialized view are of its last refresh."""
