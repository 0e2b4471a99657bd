"""Run agents, and every command that works on their files, in a bubblewrap sandbox (Linux).

A sandbox sees the machine read-only. The folder that the agent works in is writable. The data folder with the
operator's token and the database, credentials in the home folder, sockets, and processes outside the sandbox are
hidden. Acceptance commands, hooks, `setup` and git run in it too: they execute what the agent wrote, such as tests, a
git config in a folder of its own, or hooks that the repository keeps in the work tree.
"""

from __future__ import annotations

import re
import shutil
import subprocess  # nosec B404 # one trial run of bubblewrap, with an argument vector
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, Field

from shopfloor.errors import BadSettings
from shopfloor.runner.known_agents import KNOWN_AGENTS
from shopfloor.settings import Settings

RELAY = Path(__file__).with_name("relay.py")
RELAY_SOCKET = "/run/shopfloor.sock"
"""Where a process without a network finds the socket of its tools."""

CREDENTIALS = (
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".git-credentials", ".pgpass", ".pypirc",
    ".password-store", ".config/gcloud", ".config/gh", ".config/hub", ".local/share/keyrings", ".mozilla",
    ".config/google-chrome", ".config/chromium",
)  # fmt: skip
"""Files and folders of the home folder that a sandbox hides."""

_PROGRAM = "bwrap"
_TRIAL_SECONDS = 30.0
_NAME_SERVICE = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager", "/run/nscd")
"""Possible link targets of /etc/resolv.conf. The rest of /run is hidden: the sockets of docker, D-Bus and databases."""
_KERNEL = tuple(f"/proc/{name}" for name in ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "mtrr"))
"""Kernel settings that root may write even without capabilities: core_pattern names a program that the kernel
starts."""
_UNSET = (
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "DOCKER_HOST",
)
_GIT_FOLDER = re.compile(r"gitdir: ([^\r\n]+)\n?")


Options = TypeVar("Options", bound="SandboxOptions")


class SandboxOptions(BaseModel):
    """Options of `shopfloor run` and `shopfloor crew start`."""

    sandbox: bool = Field(False, description="Run the agent in a sandbox; needs bubblewrap (Linux).")
    sandbox_network: Literal["on", "off"] = Field(
        "on", description="Network of the sandbox. With off, it reaches the tools of the run and nothing else."
    )
    sandbox_write: tuple[str, ...] = Field((), description="File or folder that is writable in the sandbox.")
    sandbox_hide: tuple[str, ...] = Field((), description="File or folder that is hidden in the sandbox.")


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What the processes of one folder may see and change."""

    program: str
    root: Path
    """Processes that start in or below this folder are confined: a project, a worktree, or the worktrees of a crew."""
    data: Path
    has_network: bool
    writable: tuple[Path, ...]
    hidden: tuple[Path, ...]

    def wrap(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        scratch: Path | None = None,
        relay: tuple[Path, int] | None = None,
    ) -> list[str]:
        """Return the command that runs a command in the sandbox.

        `scratch` is an additional writable folder. `relay` is a socket of the runner and the loopback port that leads
        to it.
        """
        words = [self.program, *_ISOLATE, *([] if self.has_network else ["--unshare-net"])]
        for name in _UNSET:
            words += ["--unsetenv", name]
        words += ["--setenv", "TMPDIR", "/tmp", "--chdir", str(folder)]  # nosec B108 # a /tmp of the sandbox's own
        words += [word for mount in self._list_mounts(self._find_top(folder)) for word in mount]
        if scratch is not None:
            words += ["--bind", str(scratch), str(scratch)]
        if relay is None:
            return [*words, "--", *command]
        socket, port = relay
        words += ["--ro-bind", str(socket), RELAY_SOCKET, "--", sys.executable, "-IS", str(RELAY)]
        return [*words, RELAY_SOCKET, str(port), *command]

    def _find_top(self, folder: Path) -> Path:
        """Return the folder to make writable: the top of the worktree, or the project."""
        # From the root downwards: the first .git is out of the agent's reach, and one below it may be the agent's own.
        parts = folder.relative_to(self.root).parts
        tops = (self.root.joinpath(*parts[:count]) for count in range(len(parts) + 1))
        return next((top for top in tops if (top / ".git").exists()), self.root)

    def _list_mounts(self, top: Path) -> Iterator[tuple[str, ...]]:
        """Yield mounts. Later mounts cover earlier ones."""
        yield from (("--bind", str(path), str(path)) for path in self.writable)
        for path in self.hidden:
            yield from _hide(path)
        if self.data.is_relative_to(top):
            yield "--bind", str(top), str(top)
            yield from _hide(self.data)
        else:
            yield from _hide(self.data)
            yield "--bind", str(top), str(top)
        yield from _list_git_mounts(top, is_own=top.is_relative_to(self.data))
        # Its hooks run outside a sandbox the next time.
        if (top / "shopfloor.toml").is_file():
            yield _protect(top / "shopfloor.toml")


_ISOLATE = (
    # No --die-with-parent: SIGTERM would end bubblewrap immediately, and the agent would lose its grace period. The
    # reaper ends everything.
    "--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
    "--cap-drop", "ALL",
    "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run",  # nosec B108
    *(word for path in (*_KERNEL, *_NAME_SERVICE) for word in ("--ro-bind-try", path, path)),
)  # fmt: skip


def _hide(path: Path) -> Iterator[tuple[str, ...]]:
    if path.is_dir():
        yield "--tmpfs", str(path)
    elif path.exists():
        yield "--ro-bind", "/dev/null", str(path)


def _protect(path: Path) -> tuple[str, ...]:
    return "--ro-bind", str(path), str(path)


def _list_git_mounts(top: Path, *, is_own: bool) -> Iterator[tuple[str, ...]]:
    """Yield the mounts of the repository: an agent may add commits, but change nothing that git executes.

    A commit in a worktree with a detached HEAD needs the folder of that worktree and the objects. Branches, tags, the
    config and the hooks stay read-only, and so do packs: an agent cannot remove packed history.
    """
    dot_git = top / ".git"
    if not dot_git.exists():
        # Git outside a sandbox would use a repository that the agent makes here, with the programs that it configures.
        yield "--tmpfs", str(dot_git)
        return
    # A mount point can be neither renamed nor replaced, so the agent cannot swap in another repository.
    yield _protect(dot_git)
    if dot_git.is_dir():
        objects = dot_git / "objects"
    elif is_own:
        own, common = find_git_folders(top)
        objects = common / "objects"
        yield _protect(common)
        yield "--bind", str(own), str(own)
        # git reads it if the repository has worktree configs. Create it, so that the agent cannot.
        (own / "config.worktree").touch()
        yield from (_protect(own / name) for name in ("commondir", "gitdir", "config.worktree"))
    else:
        return
    if objects.is_dir() and not objects.is_symlink():
        yield "--bind", str(objects), str(objects)
        yield from (_protect(objects / name) for name in ("info", "pack") if (objects / name).is_dir())


def find_git_folders(worktree: Path) -> tuple[Path, Path]:
    """Return the git folder of a worktree, and the common git folder of its repository."""
    found = _GIT_FOLDER.fullmatch((worktree / ".git").read_text("utf-8"))
    if found is None:
        raise BadSettings(f"{worktree / '.git'} does not name a git folder", hint="Run `git worktree repair`")
    own = (worktree / found[1]).resolve()
    return own, (own / (own / "commondir").read_text("utf-8").strip()).resolve()


def make_absolute(options: Options, project: Path) -> Options:
    """Return the options with absolute paths. Relative paths start at the project, not at a run's worktree."""
    paths = {name: getattr(options, name) for name in ("sandbox_write", "sandbox_hide")}
    absolute = {name: tuple(str(project / Path(path).expanduser()) for path in given) for name, given in paths.items()}
    # Only options that were given: the others stay unset, as the store and a resume expect.
    return options.model_copy(update={name: given for name, given in absolute.items() if given})


def build_sandbox(
    settings: Settings, options: SandboxOptions, root: Path, agents: Iterable[Sequence[str] | None]
) -> Sandbox | None:
    """Return the sandbox of a folder according to the options, or None. Raise BadSettings if it cannot be set up.

    `agents` are the commands of the agents: each may write to the folders where it keeps its sign-in and its sessions.
    """
    if not options.sandbox:
        return None
    if sys.platform != "linux":
        hint = "Omit --sandbox, or run the agent in a container or a virtual machine"
        raise BadSettings("--sandbox needs bubblewrap, which exists for Linux only", hint=hint)
    program = shutil.which(_PROGRAM)
    if program is None:
        hint = "Install it: apt install bubblewrap, dnf install bubblewrap or pacman -S bubblewrap"
        raise BadSettings("--sandbox needs bubblewrap, which is not installed", hint=hint)
    home = Path.home()
    programs = {Path(command[0]).name for command in agents if command}
    states = [home / path for agent in KNOWN_AGENTS if agent.program in programs for path in agent.state]
    given = [_find_path("sandbox-write", path) for path in options.sandbox_write]
    hidden = [home / path for path in CREDENTIALS]
    hidden += [_find_path("sandbox-hide", path) for path in options.sandbox_hide]
    database = settings.database_file
    if database is not None and not database.is_relative_to(settings.data):
        hidden += [Path(f"{database}{suffix}") for suffix in ("", "-wal", "-shm")]
    if Path("/var/tmp").is_dir():  # nosec B108 # an empty one takes its place
        hidden.append(Path("/var/tmp"))  # nosec B108
    sandbox = Sandbox(
        program=program,
        root=root,
        data=settings.data.resolve(),
        has_network=options.sandbox_network == "on",
        writable=tuple(path.resolve() for path in (*states, *given) if path.exists()),
        hidden=tuple(path.resolve() for path in hidden if path.exists()),
    )
    _try_out(sandbox)
    return sandbox


def _find_path(option: str, given: str) -> Path:
    path = Path(given)
    if not path.exists():
        raise BadSettings(f"--{option}: {path} does not exist")
    return path


def _try_out(sandbox: Sandbox) -> None:
    """Start a process in the sandbox, and raise BadSettings with the reason if that fails."""
    network = [] if sandbox.has_network else ["--unshare-net"]
    trial = [sandbox.program, *_ISOLATE, *network, "--", sys.executable, "-IS", "-c", ""]
    result = subprocess.run(trial, capture_output=True, timeout=_TRIAL_SECONDS, check=False)  # nosec B603
    if result.returncode != 0:
        said = result.stderr.decode(errors="replace").strip().splitlines()
        raise BadSettings(
            f"--sandbox does not work here: {said[-1] if said else f'exit code {result.returncode}'}",
            hint="Allow unprivileged user namespaces, in a container with its seccomp profile, "
            "on Ubuntu with an AppArmor profile for bwrap",
        )
