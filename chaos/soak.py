"""Soak: many agents with mixed calls for a long time. Memory, file handles, the WAL and latency must stay flat."""

from __future__ import annotations

import random
import statistics
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import httpx2

from chaos.faults import count_open_files
from shopfloor import Settings, Shopfloor
from tests.transports.server import PATIENCE, Server, bearer, serving

AGENTS = 50
MAX_WAL_BYTES = 64 * 1024 * 1024
MAX_MEMORY_GROWTH = 1.25
MAX_FILES_GROWTH = 20
MAX_LATENCY_GROWTH = 3.0
"""Of p99, from the second quarter to the last."""
MAX_CORE_WAIT = 0.1
"""Share of the time that a thread of the server may wait for a core. Above it, p99 says how busy the machine was."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The server at one moment."""

    seconds: float
    memory_bytes: int
    open_files: int
    wal_bytes: int
    calls: int
    p99_ms: float
    core_wait: float
    """Share of the time since the sample before in which a thread could have run and had no core: the largest."""


@dataclass(slots=True)
class Soak:
    """The samples of a run, and what is wrong with them."""

    agents: int
    failed: int = 0
    integrity: str = ""
    samples: list[Sample] = field(default_factory=list)

    @property
    def calls(self) -> int:
        return sum(sample.calls for sample in self.samples)

    def list_problems(self) -> list[str]:
        """Return what grew although it must not."""
        half = self.samples[len(self.samples) // 4 :]
        early, late = half[: len(half) // 3 or 1], half[-(len(half) // 3 or 1) :]
        problems = []
        if compute_median(late, "memory_bytes") > MAX_MEMORY_GROWTH * compute_median(early, "memory_bytes"):
            problems.append("memory grew")
        if compute_median(late, "open_files") > compute_median(early, "open_files") + MAX_FILES_GROWTH:
            problems.append("file handles grew")
        if max(sample.wal_bytes for sample in self.samples) > MAX_WAL_BYTES:
            problems.append("the WAL is above 64 MB")
        quiet_early, quiet_late = select_quiet(early), select_quiet(late)
        if not quiet_early or not quiet_late:
            problems.append("p99 is unknown: the machine was busy with other work")
        elif compute_median(quiet_late, "p99_ms") > MAX_LATENCY_GROWTH * compute_median(quiet_early, "p99_ms"):
            problems.append("p99 grew")
        if self.failed:
            problems.append(f"{self.failed} calls failed")
        if self.integrity != "ok":
            problems.append(f"integrity: {self.integrity}")
        return problems


def run_soak(folder: Path, seconds: float, agents: int = AGENTS, interval: float = 10.0) -> Soak:
    """Let agents call for that long, and sample the server at every interval."""
    soak = Soak(agents)
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"agent-{number}" for number in range(agents)]
    with Shopfloor(Settings(project=folder)) as shopfloor:
        tokens = {name: str(shopfloor.create_agent(name)["token"]) for name in names}
    with serving(folder, log_level="warning") as server:
        callers = [_Caller(server, name, token, names) for name, token in tokens.items()]
        for caller in callers:
            caller.thread.start()
        began = sampled = time.monotonic()
        waited = read_core_waits(server.pid)
        while time.monotonic() < began + seconds:
            time.sleep(min(interval, max(0.1, began + seconds - time.monotonic())))
            now, waited_until_now = time.monotonic(), read_core_waits(server.pid)
            core_wait = max(waits - waited.get(thread, 0.0) for thread, waits in waited_until_now.items()) / (
                now - sampled
            )
            soak.samples.append(_sample(server, callers, now - began, core_wait))
            sampled, waited = now, waited_until_now
        for caller in callers:
            caller.over.set()
        for caller in callers:
            caller.thread.join(PATIENCE)
        soak.failed = sum(caller.failed for caller in callers)
        server.stop()
    checked = apsw.Connection(str(server.data / "shopfloor.db")).execute("PRAGMA quick_check").fetchall()
    soak.integrity = str(checked[0][0])
    return soak


class _Caller:
    """One agent: it sends and reads mail, logs decisions, looks at its status, and pauses in between."""

    def __init__(self, server: Server, name: str, token: str, names: list[str]) -> None:
        self._server = server
        self._token = token
        self._names = names
        self._chance = random.Random(name)
        self.latencies: list[float] = []
        self.failed = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with httpx2.Client(timeout=PATIENCE, headers=bearer(self._token)) as http:
            while not self.over.wait(self._chance.uniform(0.05, 0.5)):
                tool, input = self._choose()
                began = time.monotonic()
                reply = http.post(f"{self._server.url}/mcp/execute", json={"toolName": tool, "input": input})
                self.latencies.append(time.monotonic() - began)
                self.failed += reply.status_code != 200

    def _choose(self) -> tuple[str, dict[str, object]]:
        to = self._chance.choice(self._names)
        choices: list[tuple[str, dict[str, object]]] = [
            ("mcp__mail__send", {"toAgentId": to, "subject": "Soak", "body": "How far are you?"}),
            ("mcp__mail__list_inbox", {"limit": 20}),
            ("mcp__agent__get_status", {}),
            ("mcp__system__log_decision", {"title": "Soak", "body": "It continues"}),
        ]
        return self._chance.choice(choices)


def read_core_waits(pid: int) -> dict[str, float]:
    """Return for each thread of a process the seconds that it was ready to run and waited for a core.

    Calls wait for the thread that writes as much as for the event loop: on a busy machine it was ready for 1.4 s before
    it got a core, while the event loop waited for less than a tenth of the time.
    """
    waits = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            waits[thread.name] = int((thread / "schedstat").read_text().split()[1]) / 1e9
    return waits


def _sample(server: Server, callers: list[_Caller], at: float, core_wait: float) -> Sample:
    latencies = []
    for caller in callers:
        taken, caller.latencies = caller.latencies, []
        latencies += taken
    wal = server.data / "shopfloor.db-wal"
    resident = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1]) * 4096
    return Sample(
        seconds=at,
        memory_bytes=resident,
        open_files=count_open_files(server),
        wal_bytes=wal.stat().st_size if wal.exists() else 0,
        calls=len(latencies),
        p99_ms=sorted(latencies)[int(len(latencies) * 0.99)] * 1000 if latencies else 0.0,
        core_wait=core_wait,
    )


def select_quiet(samples: list[Sample]) -> list[Sample]:
    """Return the samples in which the machine had a core for the server whenever it needed one."""
    return [sample for sample in samples if sample.core_wait <= MAX_CORE_WAIT]


def compute_median(samples: list[Sample], name: str) -> float:
    """Return the median of one field."""
    return float(statistics.median(getattr(sample, name) for sample in samples))
