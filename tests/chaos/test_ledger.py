"""What the ledger counts as a fault."""

from __future__ import annotations

from pathlib import Path

from chaos.ledger import Writers
from tests.transports.server import serving

MAIL = {"toHuman": True, "subject": "Call failed: TRANSIENT_ERROR", "body": "B"}


def test_only_rows_of_the_clients_count_as_doubled(tmp_path: Path):
    with serving(tmp_path) as server:
        agent, user = server.agent("writer"), server.user("owner")
        # As the escalations of a failure that lasts longer than five minutes.
        for _ in range(2):
            assert server.call("mcp__mail__send", MAIL, token=agent).status_code == 200
        writers = Writers([server], agent, user, clients=0)
        assert (writers.inspect().doubled, writers.inspect().faults) == (0, 0)
        writers.sent.add(MAIL["subject"])  # type: ignore[arg-type]
        assert writers.inspect().doubled == 1


def test_every_write_of_a_client_is_in_the_ledger(tmp_path: Path):
    with serving(tmp_path) as server:
        writers = Writers([server], server.agent("writer"), server.user("owner"), clients=1)
        writers.begin()
        writers.finish()
        found = writers.inspect()
        assert (found.acknowledged, found.faults) == (len(writers.sent), 0)
