"""Random changes of a table of rows with a key, a name, an amount and a document."""

from __future__ import annotations

import random

from builders.capture.captured_databases import CapturedDatabase


def write_randomly(captured: CapturedDatabase, table: str, chance: random.Random, *, truncates: bool = True) -> None:
    """Commit a transaction of some random changes of a table."""
    with captured.transaction() as session:
        for _ in range(chance.randint(1, 4)):
            some, other = chance.sample(range(1, 9), 2)
            session.execute(
                chance.choice(
                    (
                        (
                            f"insert into {table} values ({some}, 'n{chance.randint(1, 3)}', {chance.randint(1, 3)}, "
                            f"repeat('{chance.choice('xyz')}', 3000)) on conflict (id) do nothing"
                        ),
                        f"update {table} set amount = {chance.randint(1, 3)} where id = {some}",
                        f"update {table} set name = 'n{chance.randint(1, 3)}' where id % 2 = {some % 2}",
                        f"update {table} set document = repeat('{chance.choice('xyz')}', 3000) where id = {some}",
                        f"update {table} set name = name",
                        (
                            f"update {table} set id = {some + 10} where id = {some} and not exists "
                            f"(select from {table} where id = {some + 10})"
                        ),
                        f"delete from {table} where id = {some}; update {table} set id = {some} where id = {other}",
                        (
                            f"update {table} set id = 0 where id = {some}; "
                            f"update {table} set id = {some} where id = {other}; "
                            f"update {table} set id = {other} where id = 0"
                        ),
                        f"delete from {table} where id = {some}",
                        f"with gone as (delete from {table} where id = {some} returning *) select * from gone",
                        (f"truncate {table}")
                        if truncates and chance.random() < 0.3
                        else f"delete from {table} where id > 10",
                    )
                )
            )
