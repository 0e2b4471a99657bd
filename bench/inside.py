"""Calls in process: a floor in this very program, called by as many threads as asked for.

`python -m bench.inside DATA DATABASE` measures on request.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from bench.children import answer, cpu_seconds
from bench.floor import crew
from bench.replay import replaying
from bench.tools import AGENTS, Measured, chosen
from shopfloor import Settings, Shopfloor
from shopfloor.gateways import logs

WARM_UP = 0.1


class Inside:
    def __init__(self, shopfloor: Shopfloor) -> None:
        self._shopfloor = shopfloor
        self._tools = chosen(shopfloor.floor.toolsets["factory"].tools)

    def measure(self, kind: str, clients: int, seconds: float, storeless: bool = False) -> dict[str, float]:
        """Calls, and what they used; `storeless` with the store's answers played back from memory."""
        tool = self._tools[kind]
        if not storeless:
            return self._run(tool, clients, seconds)
        with replaying(self._shopfloor.floor.works, lambda: self._call(tool, AGENTS[0])):
            return self._run(tool, clients, seconds)

    def _run(self, tool: Measured, clients: int, seconds: float) -> dict[str, float]:
        calls = [0] * clients
        running = True

        def work(place: int) -> None:
            agent = AGENTS[place % len(AGENTS)]
            while running:
                self._call(tool, agent)
                calls[place] += 1

        threads = [threading.Thread(target=work, args=(place,)) for place in range(clients)]
        for thread in threads:
            thread.start()
        time.sleep(WARM_UP)
        before, cpu, began = sum(calls), cpu_seconds(os.getpid()), time.perf_counter()
        time.sleep(seconds)
        done, used, lasted = sum(calls) - before, cpu_seconds(os.getpid()) - cpu, time.perf_counter() - began
        running = False
        for thread in threads:
            thread.join()
        return {"calls": done, "seconds": lasted, "cpu": used}

    def _call(self, tool: Measured, agent: str) -> None:
        given: Any = self._shopfloor.call("factory", tool.name, dict(tool.input), agent)
        if not given["success"]:
            raise RuntimeError(f"{tool.name} refused: {given}")


def main(data: Path, database: str) -> None:
    settings = Settings(project=data, data=data, database=database, log="json")
    logs.set_up(settings.log, settings.log_level)
    crew(settings)
    with Shopfloor(settings) as shopfloor:
        print(json.dumps({"tools": list(shopfloor.floor.toolsets["factory"].tools)}), flush=True)
        answer(Inside(shopfloor).measure)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
