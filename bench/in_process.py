"""Calls in process: a server in this program, called by a number of threads.

`python -m bench.in_process DATA DATABASE` measures on request.
"""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.replay import replay_store
from bench.server import create_agents
from bench.subprocesses import cpu_seconds, serve_requests
from bench.tools import AGENTS, Measured, choose_tools
from shopfloor import Settings, Shopfloor
from shopfloor.gateways import logs

WARM_UP_SECONDS = 0.1


class InProcess:
    def __init__(self, shopfloor: Shopfloor) -> None:
        self._shopfloor = shopfloor
        self._tools = choose_tools(shopfloor.engine.toolsets["factory"].tools)

    def measure(self, kind: str, clients: int, seconds: float, storeless: bool = False) -> dict[str, float]:
        """Measure calls; with `storeless`, replay the results of the store from memory."""
        tool = self._tools[kind]
        if not storeless:
            return self._run(tool, clients, seconds)
        with replay_store(self._shopfloor.engine.database, lambda: self._call(tool, AGENTS[0])):
            return self._run(tool, clients, seconds)

    def _run(self, tool: Measured, clients: int, seconds: float) -> dict[str, float]:
        calls = [0] * clients
        running = True

        def run_calls(place: int) -> None:
            agent = AGENTS[place % len(AGENTS)]
            while running:
                self._call(tool, agent)
                calls[place] += 1

        with ThreadPoolExecutor(clients) as pool:
            callers = [pool.submit(run_calls, place) for place in range(clients)]
            time.sleep(WARM_UP_SECONDS)
            before, cpu, started = sum(calls), cpu_seconds(os.getpid()), time.perf_counter()
            time.sleep(seconds)
            done, used, elapsed = sum(calls) - before, cpu_seconds(os.getpid()) - cpu, time.perf_counter() - started
            running = False
        # A call that failed ended its thread: without this, no calls at all would look like calls that cost nothing.
        for caller in callers:
            caller.result()
        return {"calls": done, "seconds": elapsed, "cpu": used}

    def _call(self, tool: Measured, agent: str) -> None:
        response: Any = self._shopfloor.call("factory", tool.name, dict(tool.input), agent)
        if not response["success"]:
            raise RuntimeError(f"{tool.name} rejected: {response}")


def main(data: Path, database: str) -> None:
    settings = Settings(project=data, data=data, database=database, log="json")
    logs.configure_logging(settings.log, settings.log_level)
    create_agents(settings)
    with Shopfloor(settings) as shopfloor:
        print(json.dumps({"tools": list(shopfloor.engine.toolsets["factory"].tools)}), flush=True)
        serve_requests(InProcess(shopfloor).measure)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
