"""What the faults measure."""

from __future__ import annotations

import psycopg

from chaos.faults import list_postgres_processes, read_postgres_cpu
from tests.transports.server import wait_until


def test_cpu_of_a_connection_that_ended_still_counts(postgres):
    with psycopg.connect(postgres.create_database(), autocommit=True) as connection:
        pid = connection.info.backend_pid
        connection.execute("SELECT sum(i) FROM generate_series(1, 500000) AS i")
        used = read_postgres_cpu(postgres)
    wait_until(lambda: pid not in list_postgres_processes(postgres))
    assert read_postgres_cpu(postgres) >= used
