"""The scenarios: servers under load, a fault, and the ledger of the clients as the judge.

Each has a short form for `make test` and a long one for `make chaos`.
"""

from __future__ import annotations

import random
import resource
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chaos import faults
from chaos.ledger import Findings, Writers
from chaos.webhook import Receiver
from shopfloor.background.event_sinks import EVERY_EVENT
from shopfloor.gateways.webhooks import Webhook
from tests.postgres import PostgresServer
from tests.transports.server import Server, serving, wait_until

FAULTY = ("-m", "chaos.faulty_server")
BETWEEN_FAULTS = (1, 60)
"""Acknowledged writes between two faults, chosen at random."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Running servers, the database below them, and the clients that write."""

    servers: list[Server]
    writers: Writers
    postgres: PostgresServer | None
    chance: random.Random
    agent: str

    def wait_for_writes(self) -> None:
        """Let the clients write for a while. A server that stands still fails the scenario here."""
        enough = self.writers.acknowledged + self.chance.randint(*BETWEEN_FAULTS)
        wait_until(lambda: self.writers.acknowledged >= enough)


@contextmanager
def open_stage(folder: Path, *, replicas: int = 0, through: Any = None, **settings: Any) -> Iterator[Stage]:
    """Start a server on SQLite, or that many replicas on a PostgreSQL of their own, and begin to write."""
    with ExitStack() as stack:
        postgres, options = None, {"log_level": "warning", "retry_pause": 0.2, **settings}
        if replicas and "database" not in settings:
            postgres = PostgresServer(fsync=True)
            stack.callback(postgres.stop)
            database = postgres.create_database()
            options["database"] = database if through is None else through(database)
        servers = [
            stack.enter_context(serving(folder / f"server-{number}", **options)) for number in range(replicas or 1)
        ]
        for server in servers:
            server.keep_port()
        agent = servers[0].agent("writer")
        writers = Writers(servers, agent, servers[0].user("owner"))
        writers.begin()
        try:
            yield Stage(servers, writers, postgres, random.Random(1), agent)
        finally:
            writers.finish()


def kill_server(folder: Path, rounds: int) -> Findings:
    """Kill the only server on SQLite with SIGKILL."""
    with open_stage(folder) as stage:
        for _ in range(rounds):
            stage.wait_for_writes()
            with stage.writers.pause():
                faults.kill_server(stage.servers[0])
        stage.writers.finish()
        return stage.writers.inspect()


def kill_replica(folder: Path, rounds: int) -> Findings:
    """Kill one of two replicas on PostgreSQL with SIGKILL, with its dispatcher and perhaps as the leader."""
    with open_stage(folder, replicas=2) as stage:
        for _ in range(rounds):
            stage.wait_for_writes()
            faults.kill_server(stage.chance.choice(stage.servers))
        stage.writers.finish()
        return stage.writers.inspect()


def crash_postgres(folder: Path, rounds: int) -> Findings:
    """Stop PostgreSQL as in a crash and start it again."""
    with open_stage(folder, replicas=2) as stage:
        assert stage.postgres is not None
        for _ in range(rounds):
            stage.wait_for_writes()
            stage.postgres.halt()
            stage.postgres.start()
        stage.writers.finish()
        return stage.writers.inspect()


def pause_postgres(folder: Path, rounds: int) -> Findings:
    """Suspend all processes of PostgreSQL: 30 s in the long form."""
    with open_stage(folder, replicas=2) as stage:
        assert stage.postgres is not None
        for _ in range(rounds):
            stage.wait_for_writes()
            with faults.suspend(faults.list_postgres_processes(stage.postgres)):
                faults.wait_seconds(3 if rounds == 1 else 30)
        stage.wait_for_writes()
        stage.writers.finish()
        return stage.writers.inspect()


def suspend_replica(folder: Path, rounds: int) -> Findings:
    """Suspend one of two replicas for longer than a leader may be silent, and resume it."""
    with open_stage(folder, replicas=2) as stage:
        for number in range(rounds):
            stage.wait_for_writes()
            with faults.suspend([stage.servers[number % 2].pid]):
                faults.wait_seconds(7)
        stage.wait_for_writes()
        stage.writers.finish()
        return stage.writers.inspect()


def cut_at_commit(folder: Path, rounds: int) -> Findings:
    """Cut connections to PostgreSQL between COMMIT and its answer, so that its outcome is unknown."""
    cutters: list[faults.CommitCutter] = []

    def put_between(url: str) -> str:
        cutters.append(faults.CommitCutter(url))
        return cutters[0].url

    with open_stage(folder, replicas=2, through=put_between) as stage:
        [cutter] = cutters
        for _ in range(rounds):
            stage.wait_for_writes()
            before = cutter.cuts
            cutter.cut()
            wait_until(lambda before=before: cutter.cuts > before)  # type: ignore[misc]
        stage.wait_for_writes()
        stage.writers.finish()
        findings = stage.writers.inspect()
    cutter.close()
    return findings


def fail_over(folder: Path, rounds: int) -> Findings:
    """Crash the primary of PostgreSQL and promote its synchronous standby."""
    with ExitStack() as stack:
        primary = PostgresServer(fsync=True, replicated=True)
        stack.callback(primary.stop)
        switch = faults.Switch(primary.create_database())
        stack.callback(switch.close)
        with open_stage(folder, replicas=2, database=switch.url) as stage:
            for _ in range(rounds):
                standby = PostgresServer(fsync=True, primary=primary)
                stack.callback(standby.stop)
                primary.require_standby()
                stage.wait_for_writes()
                primary.halt()
                standby.promote()
                switch.lead_to(standby)
                primary = standby
            stage.wait_for_writes()
            stage.writers.finish()
            return stage.writers.inspect()


def make_read_only(folder: Path, rounds: int) -> Findings:
    """Let PostgreSQL reject writes for a while, as a demoted primary does."""
    with open_stage(folder, replicas=2) as stage:
        assert stage.postgres is not None
        for _ in range(rounds):
            stage.wait_for_writes()
            stage.postgres.set_read_only(True)
            faults.wait_seconds(1)
            stage.postgres.set_read_only(False)
        stage.wait_for_writes()
        stage.writers.finish()
        return stage.writers.inspect()


def send_burst(folder: Path, rounds: int) -> Findings:
    """Send many calls at once: 5,000 in the long form. Each must be answered, if only with 503."""
    with open_stage(folder) as stage:
        unanswered = 0
        for _ in range(rounds):
            unanswered += faults.send_burst(stage.servers[0], stage.agent, 300 if rounds == 1 else 5000)
            stage.wait_for_writes()
        stage.writers.finish()
        findings = stage.writers.inspect()
    return replace(findings, unexpected=findings.unexpected + unanswered)


def use_up_files(folder: Path, rounds: int) -> Findings:
    """Leave a server without a free file handle for a while."""
    with open_stage(folder) as stage:
        [server] = stage.servers
        for _ in range(rounds):
            stage.wait_for_writes()
            with faults.limit_resource(server, resource.RLIMIT_NOFILE, faults.count_open_files(server) + 1):
                opened = faults.open_idle_connections(server, 5)
                faults.wait_seconds(1)
            for connection in opened:
                connection.close()
        stage.wait_for_writes()
        stage.writers.finish()
        return stage.writers.inspect()


def limit_file_size(folder: Path, rounds: int) -> Findings:
    """Let no file of the server grow, as on a full disk, for a while."""
    with open_stage(folder) as stage:
        [server] = stage.servers
        for _ in range(rounds):
            stage.wait_for_writes()
            size = (server.data / "shopfloor.db-wal").stat().st_size
            with faults.limit_resource(server, resource.RLIMIT_FSIZE, max(size, 4096)):
                faults.wait_seconds(1)
        stage.wait_for_writes()
        stage.writers.finish()
        return stage.writers.inspect()


def slow_down_disk(folder: Path, rounds: int) -> Findings:
    """Let each write to the disk take 5 ms, and each commit 0.3 s more, for a while."""
    return _switch_disk(folder, rounds, "slow_disk")


def make_disk_read_only(folder: Path, rounds: int) -> Findings:
    """Let the disk below SQLite reject writes for a while, as a file system does that was remounted after an error."""
    return _switch_disk(folder, rounds, "read_only_disk")


def _switch_disk(folder: Path, rounds: int, fault: str) -> Findings:
    with open_stage(folder, program=FAULTY) as stage:
        [server] = stage.servers
        for _ in range(rounds):
            stage.wait_for_writes()
            with faults.switch_on(server, fault):
                faults.wait_seconds(1)
        stage.wait_for_writes()
        stage.writers.finish()
        return stage.writers.inspect()


def jump_clock(folder: Path, rounds: int) -> Findings:
    """Set the clock of the machine an hour ahead, then an hour back, then right, while SQLite is below."""
    with Receiver() as receiver, open_stage(folder, **_deliver_to(receiver)) as stage:
        [server] = stage.servers
        for _ in range(rounds):
            for seconds in (3600, -3600):
                with faults.switch_on(server, "clock", seconds):
                    stage.wait_for_writes()
            stage.wait_for_writes()
        stage.writers.finish()
        receiver.recover()
        return _inspect_deliveries(stage, receiver)


def suspend_server(folder: Path, rounds: int) -> Findings:
    """Suspend the only server on SQLite, and resume it: 40 s in the long form, so that others would take it for dead."""
    with open_stage(folder) as stage:
        [server] = stage.servers
        for _ in range(rounds):
            stage.wait_for_writes()
            with faults.suspend([server.pid]):
                faults.wait_seconds(2 if rounds == 1 else 40)
        stage.wait_for_writes()
        stage.writers.finish()
        return stage.writers.inspect()


def bother_with_clients(folder: Path, rounds: int) -> Findings:
    """Connect clients that are idle, that vanish, and that never read: 1,000 idle streams in the long form."""
    with open_stage(folder) as stage:
        [server] = stage.servers
        for _ in range(rounds):
            streams = faults.open_idle_streams(server, stage.agent, 50 if rounds == 1 else 1000)
            idle = faults.open_idle_connections(server, 50 if rounds == 1 else 1000)
            unread = faults.open_unread_connections(server, stage.agent, 5, 200)
            faults.send_and_vanish(server, stage.agent, 50 if rounds == 1 else 500)
            stage.wait_for_writes()
            for connection in (*streams, *idle, *unread):
                connection.close()
        stage.writers.finish()
        return stage.writers.inspect()


def fail_webhooks(folder: Path, rounds: int) -> Findings:
    """Deliver events to a receiver that hangs, drips, fails and answers, and kill the server meanwhile."""
    with Receiver() as receiver, open_stage(folder, **_deliver_to(receiver)) as stage:
        for _ in range(rounds):
            stage.wait_for_writes()
            with stage.writers.pause():
                faults.kill_server(stage.servers[0])
        stage.writers.finish()
        receiver.recover()
        return _inspect_deliveries(stage, receiver)


def crash_in_webhook(folder: Path, rounds: int) -> Findings:
    """Let the delivery of some events end the server: each at most 10 times, until it is a dead letter."""
    with Receiver() as receiver, open_stage(folder, **_deliver_to(receiver)) as stage:
        receiver.recover()
        [server] = stage.servers
        with faults.switch_on(server, "crash"):
            for _ in range(rounds):
                wait_until(lambda: server.process.poll() is not None)
                while not faults.try_to_restart(server):
                    pass
        # It may have ended once more before the fault did.
        faults.kill_server(server)
        stage.writers.finish()
        retried = server.run("call", "desk", "dead_letter_retry_all")
        assert retried.returncode == 0, retried.stderr
        return _inspect_deliveries(stage, receiver)


def damage_events(folder: Path, rounds: int) -> Findings:
    """Put events among the others that no subscriber can read. They become dead letters, and hold up nothing."""
    with Receiver() as receiver, open_stage(folder, **_deliver_to(receiver)) as stage:
        receiver.recover()
        [server] = stage.servers
        subscribers = (Webhook(receiver.url, "").name, "escalation mail")
        for _ in range(rounds):
            stage.wait_for_writes()
            faults.plant_damaged_event(server, subscribers)
        stage.wait_for_writes()
        stage.writers.finish()
        wait_until(lambda: server.count("delivery", "dead_at IS NOT NULL") == rounds * len(subscribers))
        server.execute_sql("DELETE FROM delivery WHERE event IN (SELECT id FROM event WHERE name = 'damaged')")
        return _inspect_deliveries(stage, receiver)


def _deliver_to(receiver: Receiver) -> dict[str, Any]:
    return {"program": FAULTY, "webhooks": receiver.url, "webhook_private_addresses": True}


def _inspect_deliveries(stage: Stage, receiver: Receiver) -> Findings:
    """Compare the ledger with the store, and the events with those that reached the receiver."""
    findings = stage.writers.inspect()
    # Changes of private lists have no webhook.
    emitted = {id for (id, name) in stage.servers[0].rows("SELECT id, name FROM event") if name in EVERY_EVENT}
    return replace(findings, undelivered=max(findings.undelivered, len(emitted - receiver.events)))


@dataclass(frozen=True, slots=True)
class Scenario:
    """A fault, and how often it happens in the short form, if it is part of it, and in the long form."""

    run: Callable[[Path, int], Findings]
    short: int
    long: int

    @property
    def name(self) -> str:
        return self.run.__name__.replace("_", " ")


SCENARIOS = [
    Scenario(kill_server, 3, 200),
    Scenario(kill_replica, 3, 200),
    Scenario(crash_postgres, 1, 20),
    Scenario(pause_postgres, 1, 3),
    Scenario(suspend_replica, 1, 10),
    Scenario(cut_at_commit, 5, 200),
    Scenario(fail_over, 0, 3),
    Scenario(make_read_only, 1, 20),
    Scenario(send_burst, 1, 3),
    Scenario(use_up_files, 1, 20),
    Scenario(limit_file_size, 1, 20),
    Scenario(slow_down_disk, 1, 20),
    Scenario(make_disk_read_only, 1, 20),
    Scenario(jump_clock, 1, 20),
    Scenario(suspend_server, 1, 3),
    Scenario(bother_with_clients, 1, 5),
    Scenario(fail_webhooks, 1, 10),
    Scenario(crash_in_webhook, 1, 15),
    Scenario(damage_events, 1, 20),
]
