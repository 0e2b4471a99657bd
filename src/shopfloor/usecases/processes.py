"""Processes of this workspace: which are alive, and which are gone."""

from __future__ import annotations

import os
import socket

from shopfloor.domain.times import SECOND
from shopfloor.gateways import process_tree
from shopfloor.repositories.processes import Process
from shopfloor.repositories.uow import UnitOfWork

MAX_SILENCE = 30 * SECOND
"""A process without a heartbeat for this long counts as dead, on any host."""
SERVER = "serve"
"""The kind of the processes that serve agents over HTTP."""
MAX_TIME = 2**63 - 1


def register_process(uow: UnitOfWork, kind: str, url: str | None) -> int:
    """Register this process and return its number."""
    # Agents could not reach the server before, even if a command or a run was up and sent heartbeats.
    is_first = kind == SERVER and not any(each.kind == SERVER for each in list_alive(uow))
    uow.workspaces.record_heartbeat(uow.workspace, uow.now, MAX_TIME if is_first else uow.now - MAX_SILENCE)
    pid = os.getpid()
    return uow.processes.add(
        kind,
        socket.gethostname(),
        pid,
        url,
        uow.now,
        namespace=process_tree.read_namespace(),
        start_ticks=process_tree.read_start_ticks(pid),
    )


def record_heartbeat(uow: UnitOfWork, id: int) -> bool:
    """Record a heartbeat. Return False if the process was reaped as dead."""
    uow.workspaces.record_heartbeat(uow.workspace, uow.now, uow.now - MAX_SILENCE)
    return uow.processes.record_heartbeat(id, uow.now)


def find_up_since(uow: UnitOfWork) -> int | None:
    """Return the start of the server's uptime without gaps, or None while the last heartbeat is late."""
    return uow.workspaces.find_up_since(uow.workspace, uow.now - MAX_SILENCE)


def reap_dead(uow: UnitOfWork) -> list[Process]:
    """Remove the processes that are gone and return them."""
    gone = [process for process in uow.processes.list_all() if process.id != uow.process and _is_gone(process, uow.now)]
    for process in gone:
        uow.processes.remove(process.id)
    return gone


def list_alive(uow: UnitOfWork) -> list[Process]:
    """Return the processes that are alive."""
    return [process for process in uow.processes.list_all() if not _is_gone(process, uow.now)]


def is_alive(uow: UnitOfWork, id: int) -> bool:
    """Return whether the process is alive."""
    return any(process.id == id for process in list_alive(uow))


def list_processes_above(uow: UnitOfWork, kind: str) -> set[int]:
    """Return the numbers of this process's ancestors of that kind in this PID namespace."""
    ancestors, namespace = process_tree.list_ancestors(), process_tree.read_namespace()
    return {
        process.id
        for process in uow.processes.list_all()
        if process.kind == kind and process.namespace == namespace and process.pid in ancestors
    }


def _is_gone(process: Process, now: int) -> bool:
    if now - process.heartbeat_at > MAX_SILENCE:
        return True
    # In another namespace a pid means nothing, and the heartbeat must do. Containers may share a host name, so it is
    # not compared.
    if process.namespace != process_tree.read_namespace():
        return False
    return not process_tree.is_running(process.pid, process.start_ticks)
