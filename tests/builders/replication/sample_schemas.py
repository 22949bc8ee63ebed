"""The sample databases Chinook, Northwind and Pagila: their tables, with random rows instead of their data."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg

from builders.replication.published_tables import PublishedTable, Session
from rowtide.databases.postgres.quoting import quote_literal

CHINOOK = """
create table artist (artist_id int primary key, name varchar(120));
create table album (album_id int primary key, title varchar(160) not null,
    artist_id int not null references artist (artist_id));
create table employee (employee_id int primary key, last_name varchar(20) not null, title varchar(30),
    reports_to int references employee (employee_id), birth_date timestamp, hire_date timestamp, city varchar(40));
create table customer (customer_id int primary key, first_name varchar(40) not null, company varchar(80),
    email varchar(60) not null, support_rep_id int references employee (employee_id));
create table invoice (invoice_id int primary key, customer_id int not null references customer (customer_id),
    invoice_date timestamp not null, billing_city varchar(40), total numeric(10,2) not null);
create table media_type (media_type_id int primary key, name varchar(120));
create table genre (genre_id int primary key, name varchar(120));
create table track (track_id int primary key, name varchar(200) not null, album_id int references album (album_id),
    media_type_id int not null references media_type (media_type_id), genre_id int references genre (genre_id),
    composer varchar(220), milliseconds int not null, bytes int, unit_price numeric(10,2) not null);
create index track_genre on track (genre_id);
create table invoice_line (invoice_line_id int primary key, invoice_id int not null references invoice (invoice_id),
    track_id int not null references track (track_id), unit_price numeric(10,2) not null, quantity int not null);
create table playlist (playlist_id int primary key, name varchar(120));
create table playlist_track (playlist_id int not null references playlist (playlist_id),
    track_id int not null references track (track_id), primary key (playlist_id, track_id));
"""

NORTHWIND = """
create table categories (category_id smallint primary key, category_name varchar(15) not null, description text,
    picture bytea);
create table customers (customer_id char(5) primary key, company_name varchar(40) not null, city varchar(15),
    phone varchar(24));
create table customer_demographics (customer_type_id char(5) primary key, customer_desc text);
create table customer_customer_demo (customer_id char(5) not null references customers (customer_id),
    customer_type_id char(5) not null references customer_demographics (customer_type_id),
    primary key (customer_id, customer_type_id));
create table region (region_id smallint primary key, region_description char(40) not null);
create table territories (territory_id varchar(20) primary key, territory_description char(40) not null,
    region_id smallint not null references region (region_id));
create table employees (employee_id smallint primary key, last_name varchar(20) not null, birth_date date,
    photo bytea, notes text, reports_to smallint references employees (employee_id));
create table employee_territories (employee_id smallint not null references employees (employee_id),
    territory_id varchar(20) not null references territories (territory_id), primary key (employee_id, territory_id));
create table shippers (shipper_id smallint primary key, company_name varchar(40) not null, phone varchar(24));
create table suppliers (supplier_id smallint primary key, company_name varchar(40) not null, homepage text);
create table products (product_id smallint primary key, product_name varchar(40) not null,
    supplier_id smallint references suppliers (supplier_id), category_id smallint references categories (category_id),
    unit_price real, units_in_stock smallint, discontinued int not null);
create table orders (order_id smallint primary key, customer_id char(5) references customers (customer_id),
    employee_id smallint references employees (employee_id), order_date date, shipped_date date,
    ship_via smallint references shippers (shipper_id), freight real, ship_name varchar(40));
create table order_details (order_id smallint not null references orders (order_id),
    product_id smallint not null references products (product_id), unit_price real not null,
    quantity smallint not null, discount real not null, primary key (order_id, product_id));
create table us_states (state_id smallint primary key, state_name varchar(100), state_abbr varchar(2));
"""

PAGILA = """
create type mpaa_rating as enum ('G', 'PG', 'PG-13', 'R', 'NC-17');
create domain release_year as integer check (value between 1901 and 2155);
create function last_updated() returns trigger language plpgsql as
    'begin new.last_update = clock_timestamp(); return new; end';
create table actor (actor_id int generated by default as identity primary key, first_name text not null,
    last_name text not null, last_update timestamptz not null default now());
create trigger last_updated before update on actor for each row execute function last_updated();
create index actor_last_name on actor (last_name);
create table category (category_id int primary key, name text not null, last_update timestamptz default now());
create table language (language_id int primary key, name character(20) not null, last_update timestamptz);
create table film (film_id int generated by default as identity primary key, title text not null, description text,
    year release_year, language_id int not null references language (language_id),
    original_language_id int references language (language_id), rental_duration smallint not null default 3,
    rental_rate numeric(4,2) not null default 4.99, length smallint, rating mpaa_rating default 'G',
    special_features text[], fulltext tsvector);
create function film_fulltext() returns trigger language plpgsql as
    'begin new.fulltext = to_tsvector(''simple'', new.title); return new; end';
create trigger film_fulltext before insert or update on film for each row execute function film_fulltext();
create index film_fulltext_index on film using gist (fulltext);
create table film_actor (actor_id int not null references actor (actor_id) on update cascade on delete restrict,
    film_id int not null references film (film_id) on update cascade on delete cascade, last_update timestamptz,
    primary key (actor_id, film_id));
create table film_category (film_id int not null references film (film_id) on delete cascade,
    category_id int not null references category (category_id), primary key (film_id, category_id));
create table country (country_id int primary key, country text not null);
create table city (city_id int primary key, city text not null,
    country_id int not null references country (country_id));
create table address (address_id int primary key, address text not null, address2 text, phone text,
    city_id int not null references city (city_id));
create table store (store_id int primary key, manager_staff_id int not null,
    address_id int not null references address (address_id));
create table staff (staff_id int primary key, first_name text not null, active boolean not null default true,
    picture bytea, address_id int not null references address (address_id),
    store_id int not null references store (store_id) deferrable initially deferred);
alter table store add foreign key (manager_staff_id) references staff (staff_id) deferrable initially deferred;
create table customer (customer_id int primary key, store_id int not null references store (store_id),
    last_name text not null, email text unique, address_id int not null references address (address_id),
    activebool boolean not null default true, create_date date not null default current_date);
create table inventory (inventory_id int primary key, film_id int not null references film (film_id) on delete cascade,
    store_id int not null references store (store_id));
create table rental (rental_id int primary key, rental_date timestamptz not null,
    inventory_id int not null references inventory (inventory_id),
    customer_id int not null references customer (customer_id), return_date timestamptz,
    staff_id int not null references staff (staff_id), during interval);
create unique index rental_unique on rental (rental_date, inventory_id, customer_id);
create table payment (payment_id int not null, customer_id int not null references customer (customer_id),
    staff_id int not null references staff (staff_id), rental_id int references rental (rental_id) on delete set null,
    amount numeric(5,2) not null, payment_date date not null, primary key (payment_date, payment_id))
    partition by range (payment_date);
create table payment_1 partition of payment for values from ('2022-01-01') to ('2022-02-01');
create table payment_2 partition of payment for values from ('2022-02-01') to ('2022-03-01');
create table payment_rest partition of payment default;
"""

_COLUMNS = """
select attname::text, pg_catalog.format_type(atttypid, atttypmod) from pg_catalog.pg_attribute
where attrelid = %s::regclass and attnum > 0 and not attisdropped order by attnum
"""
_TABLES = """
select c.oid::int, relname::text from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = relnamespace
where nspname = 'public' and relkind in ('r', 'p') and not relispartition order by c.oid
"""
_KEY = """
select attname::text from pg_catalog.pg_index, unnest(indkey) with ordinality key (number, place)
join pg_catalog.pg_attribute a on attnum = key.number
where indrelid = %s::regclass and indisprimary and attrelid = indrelid order by place
"""
_REFERENCES = """
select a.attname::text, confrelid::regclass::text, b.attname::text from pg_catalog.pg_constraint
join pg_catalog.pg_attribute a on a.attrelid = conrelid and a.attnum = conkey[1]
join pg_catalog.pg_attribute b on b.attrelid = confrelid and b.attnum = confkey[1]
where contype = 'f' and conrelid = %s::regclass and conparentid = 0
"""
_BEHIND_FUNCTIONS = frozenset({"title", "fulltext", "last_update"})
"""Columns that triggers name."""
_ALIKE = re.compile(r"integer|int|smallint|bigint|text|varchar.*|character varying.*|date")
"""Types whose values a SQLite file shows as the server does."""
_SPELLED = {"integer": "int", "character varying(20)": "varchar(20)"}
_TEXTS = ("Ünïcödé", "it's", "back\\slash", "plain", "漢字", "")
_ODD = quote_literal('"{,')
_ROWS = 30
"""Rows of a table have keys up to this, so that they meet."""


@dataclass
class SampleSchema:
    """A sample database as a published schema."""

    chosen: random.Random
    sql: str
    tables: list[PublishedTable] = field(default_factory=list)
    _references: dict[int, Mapping[str, tuple[PublishedTable, str]]] = field(default_factory=dict)
    """Of each table, by its place: what its columns refer to."""

    def definitions(self) -> Sequence[str]:
        return [sql_text for sql_text in re.split(r";\n(?=create|alter)", self.sql.strip().rstrip(";")) if sql_text]

    def begin(self, connection: Session) -> None:
        """Fill the tables, now that they are made."""
        found = {str(name): self._read(connection, str(name)) for _, name in connection.execute(_TABLES).fetchall()}
        self.tables += [table for name, table in found.items() if name != "commits"]
        for table in self.tables:
            rows = connection.execute(_REFERENCES, [table.name]).fetchall()
            self._references[id(table)] = {
                column: (found[referenced], key) for column, referenced, key in rows if referenced in found
            }
            table.fixed |= {column for column, _, _ in rows} | {key for one in found.values() for key in one.key}
        if "store" in found:
            self._open_first_store(connection)
        for table in self.tables:
            for _ in range(_ROWS):
                self._try(connection, self._insert(table))

    def _read(self, connection: Session, name: str) -> PublishedTable:
        columns = {
            str(column): _SPELLED.get(str(of), str(of))
            for column, of in connection.execute(_COLUMNS, [name]).fetchall()
        }
        key = tuple(str(column) for (column,) in connection.execute(_KEY, [name]).fetchall())
        return PublishedTable(name, columns, key=key, fixed=frozenset(key) | _BEHIND_FUNCTIONS)

    def _open_first_store(self, connection: Session) -> None:
        """A store needs a manager, who needs a store."""
        for sql_text in (
            "insert into country values (1, 'x')",
            "insert into city values (1, 'x', 1)",
            "insert into address values (1, 'x', null, null, 1)",
            "insert into store values (1, 1, 1)",
            "insert into staff values (1, 'x', true, null, 1, 1)",
        ):
            connection.execute(sql_text.encode())
        connection.execute("set constraints all immediate")

    def change_rows(self, connection: Session, table: PublishedTable) -> None:
        """Change rows, unless a constraint keeps them from it: each statement is a subtransaction."""
        changes = [self._insert(table)] * 3 + [self._update(table)] * 4 + [self._delete(table), self._rename_key(table)]
        if self.chosen.random() < 0.05:
            changes = [self._copy_rows(table)]
        self._try(connection, self.chosen.choice(changes))

    def _try(self, connection: Session, sql_text: str) -> None:
        # A block of psycopg's is a savepoint only within a transaction; else it commits.
        connection.execute(b"select")
        # By chance another row has the key or the unique value, or refers to this one.
        with suppress(psycopg.IntegrityError), connection.transaction():
            connection.execute(sql_text.encode())
            connection.execute("set constraints all immediate")

    def new_table(self, name: str) -> PublishedTable | None:
        return None

    def can_leave(self, table: PublishedTable) -> bool:
        """Rows of the others would refer to rows that do not come any more."""
        return False

    def is_comparable(self, type_text: str) -> bool:
        return _ALIKE.fullmatch(type_text) is not None

    def _insert(self, table: PublishedTable) -> str:
        names = [name for name in table.columns if name in table.key or self.chosen.random() < 0.9]
        values = ", ".join(self._value(table, name) for name in names)
        return f"insert into {table.name} ({', '.join(names)}) values ({values})"

    def _update(self, table: PublishedTable) -> str:
        names = [name for name in table.columns if name not in table.key] or [table.key[-1]]
        changed = self.chosen.sample(names, min(len(names), self.chosen.randint(1, 3)))
        values = ", ".join(f"{name} = {self._value(table, name)}" for name in changed)
        return f"update {table.name} set {values} where {self._some(table)}"

    def _rename_key(self, table: PublishedTable) -> str:
        name = self.chosen.choice(table.key)
        return f"update {table.name} set {name} = {self._value(table, name)} where {self._some(table, most=1)}"

    def _delete(self, table: PublishedTable) -> str:
        return f"delete from {table.name} where {self._some(table)}"

    def _copy_rows(self, table: PublishedTable) -> str:
        """Hundreds of updates in one statement."""
        names = [name for name in table.columns if name not in table.key] or [table.key[-1]]
        return f"update {table.name} set {names[0]} = {names[0]}"

    def _some(self, table: PublishedTable, *, most: int = 3) -> str:
        key = ", ".join(table.key)
        place, number = self.chosen.randint(0, _ROWS), self.chosen.randint(1, most)
        return f"({key}) in (select {key} from {table.name} order by {key} offset {place} limit {number})"

    def _value(self, table: PublishedTable, name: str) -> str:
        reference = self._references.get(id(table), {}).get(name)
        number = self.chosen.randint(1, _ROWS)
        if reference is not None:
            parent, key = reference
            return f"(select {key} from {parent.name} order by 1 offset {number % 10} limit 1)"
        if name not in table.key and self.chosen.random() < 0.1:
            return "null"
        return _literal(self.chosen, table.columns[name], number)


def _literal(chosen: random.Random, type_text: str, number: int) -> str:
    """Return a value of a type; of few different ones, so that keys meet."""
    size = re.search(r"\((\d+)", type_text)
    width = int(size.group(1)) if size else 3000
    text = f"{number} {chosen.choice(_TEXTS)}"[:width]
    if type_text in {"int", "smallint", "bigint"}:
        return str(number)
    if type_text.startswith(("numeric", "real")):
        return f"{number}.{chosen.randint(0, 99):02}"
    if type_text.startswith("date"):
        return f"date '2022-01-15' + {number}"
    if type_text.startswith(("timestamp", "interval")):
        time = f"interval '{number} days {chosen.randint(0, 59)} minutes'"
        return time if type_text == "interval" else f"timestamp '2022-01-15 12:00' + {time}"
    others = {
        "boolean": chosen.choice(["true", "false"]),
        "bytea": f"decode(repeat('{number:02x}00ff', {chosen.choice([0, 5, 2000])}), 'hex')",
        "text[]": f"array['a, {number}', null, {_ODD}]",
        "mpaa_rating": f"'{chosen.choice(['G', 'PG', 'PG-13', 'R', 'NC-17'])}'",
        "release_year": str(1990 + number),
        "tsvector": "null",
    }
    if type_text in others:
        return others[type_text]
    if type_text == "text" and chosen.random() < 0.05:
        # Stored out of line.
        return f"repeat('{number} long ', 2000)"
    return quote_literal(text)


def chinook(chosen: random.Random) -> SampleSchema:
    return SampleSchema(chosen, CHINOOK)


def northwind(chosen: random.Random) -> SampleSchema:
    return SampleSchema(chosen, NORTHWIND)


def pagila(chosen: random.Random) -> SampleSchema:
    return SampleSchema(chosen, PAGILA)
