"""Sample databases under random changes of rows and schemas, with kills: each subscriber has the publisher's."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from builders.replication.replication_machines import KilledDatabases, ReplicationMachine
from builders.replication.sample_schemas import SampleSchema, chinook, northwind, pagila

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(3600)]
TEN_MINUTES = [pytest.param(schema, 600, marks=pytest.mark.soak) for schema in (chinook, northwind, pagila)]


@pytest.mark.parametrize(("schema", "seconds"), [(chinook, 20), *TEN_MINUTES])
def test_sample_databases_are_replicated_through_any_kills(
    killed: KilledDatabases,
    schema: Callable[[random.Random], SampleSchema],
    seconds: float,
) -> None:
    seed = int(os.environ.get("ROWTIDE_SOAK_SEED") or random.randrange(1_000_000))
    ReplicationMachine.on(killed, seed, schema).run_for(seconds)
