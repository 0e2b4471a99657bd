"""The path gate, by names alone and against hostile file systems."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shopfloor.domain.paths import PathRules
from shopfloor.errors import ClientError, FileNotFound, FileTooLarge, NotAFile, PathDenied, PathNotAllowed
from shopfloor.gateways.files import MAX_FILE_BYTES, Files
from shopfloor.settings import SECRET_NAMES

ABSOLUTE = "Absolute paths not allowed"
TRAVERSAL = "Path traversal not allowed"
DENIED = "Permission denied"

HOSTILE = [
    ("/etc/passwd", ABSOLUTE), ("/", ABSOLUTE), ("//etc/passwd", ABSOLUTE), ("/src/../x", ABSOLUTE),
    ("C:\\Windows\\x", ABSOLUTE), ("c:/x", ABSOLUTE), ("\\\\host\\share", ABSOLUTE), ("\\x", ABSOLUTE),
    ("／etc/passwd", ABSOLUTE), ("/.env", ABSOLUTE),
    ("..", TRAVERSAL), ("../x", TRAVERSAL), ("../../../etc/passwd", TRAVERSAL), ("src/../x", TRAVERSAL),
    ("src/..", TRAVERSAL), ("src/../../x", TRAVERSAL), ("./../x", TRAVERSAL), ("a/b/../../../x", TRAVERSAL),
    ("..\\x", TRAVERSAL), ("src\\..\\..\\x", TRAVERSAL), ("..//x", TRAVERSAL), ("../.env", TRAVERSAL),
    ("．．/x", TRAVERSAL), ("‥/x", TRAVERSAL), ("src/．./x", TRAVERSAL), ("..／x", TRAVERSAL), ("../", TRAVERSAL),
    (".\u200b./x", TRAVERSAL), ("src/.\u2060./x", TRAVERSAL), ("../project-old/secret.txt", TRAVERSAL),
    (".env", DENIED), (".ENV", DENIED), (".Env", DENIED), ("./.env", DENIED), (".env/", DENIED), ("src/.env", DENIED),
    ("a//.env", DENIED), (".env.local", DENIED), (".env.production", DENIED), (".ENV.LOCAL", DENIED), (".env.", DENIED),
    ("．env", DENIED), (".ｅｎｖ", DENIED), (".e\u200dnv", DENIED), (".env\u200c", DENIED), (".env/x", DENIED),
    (".git", DENIED), (".git/config", DENIED), (".GIT/config", DENIED), (".Git/HEAD", DENIED), ("sub/.git/config", DENIED),
    (".g\u200cit/config", DENIED), (".ｇｉｔ/config", DENIED), (".git/hooks/pre-commit", DENIED), (".git\\config", DENIED),
    ("node_modules", DENIED), ("node_modules/a/index.js", DENIED), ("NODE_MODULES/a", DENIED), ("a/node_modules/b", DENIED),
    ("Node_Modules/x", DENIED), ("node\u200b_modules/x", DENIED), ("a\\node_modules\\b", DENIED),
    (".envrc", DENIED), (".netrc", DENIED), (".npmrc", DENIED), (".pypirc", DENIED), ("certs/server.pem", DENIED),
    ("SERVER.PEM", DENIED), ("id_rsa", DENIED), (".ssh/id_ed25519", DENIED), ("deploy.key", DENIED), ("store.p12", DENIED),
    (".shopfloor/shopfloor.db", DENIED), (".SHOPFLOOR/operator.token", DENIED), (".shopfloor", DENIED),
    (".env ", DENIED), (" .env", DENIED), (".env\u00a0", DENIED), (".git /config", DENIED), (".. /x", TRAVERSAL),
    (".aws/credentials", DENIED), (".git-credentials", DENIED), ("a/b/c/.env.staging", DENIED), ("ſrc/.env", DENIED),
    (".env~", DENIED), ("src/..env.swp", DENIED), ("#.env#", DENIED), ("#.env.local#", DENIED), (".#.env", DENIED),
]  # fmt: skip

HARMLESS = [
    ".gitignore", ".gitattributes", ".github/workflows/ci.yml", ".gitlab-ci.yml", "src/environment.ts", "env", "env.py",
    "src/app.environment.ts", "v1../notes.txt", "src/.envrc.md", "docs/git-guide.md", "src/node_modules_list.py",
    "a..b/notes..txt", ".env.example", ".env.sample", ".env.template", ".ENV.EXAMPLE", "git/config", "src/git.py",
    "...", ".../x", "a.../b", "..a", "..a/b", "a..", "a../b", ".envoy/config.yaml", ".environment", "my.env", "x.env.md",
    "not_node_modules/x", "node_modules.md", "node-modules/x", "pem.txt", "keys.py", "id_rsa.pub.md", "~/x", "~", "a b/c d",
    "src/é.py", "日本/語.txt", "a'b\"c", "a;b", "$(x)", "`x`", "-rf", "--help", "a\tb", "..env", ".e.nv", "shopfloor/.x",
    "con", "aux.txt", "a:b", "x\\y", "*", "?", "[a]", "#a", "%2e%2e/x", "%00", "src/....//x", ".shopfloor.md", "readme",
]  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> Files:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.txt").write_text("inside\n")
    (root / ".shopfloor").mkdir()
    (root / ".shopfloor" / "shopfloor.db").write_text("rows")
    (tmp_path / "outside.txt").write_text("outside\n")
    return Files(root, root / ".shopfloor", SECRET_NAMES)


def test_at_least_a_hundred_hostile_names_are_tested():
    assert len(HOSTILE) + len(HARMLESS) >= 100
    assert len({name for name, _ in HOSTILE} | set(HARMLESS)) == len(HOSTILE) + len(HARMLESS)


@pytest.mark.parametrize(("name", "text"), HOSTILE, ids=[ascii(name) for name, _ in HOSTILE])
def test_hostile_name_is_rejected(files: Files, name: str, text: str):
    with pytest.raises((PathNotAllowed, PathDenied)) as rejection:
        files.read(name)
    assert (rejection.value.message, rejection.value.facts["path"]) == (text, name)


@pytest.mark.parametrize(
    "name",
    [name for name, text in HOSTILE if text == DENIED and "\\" not in name and not name.endswith("/")],
    ids=ascii,
)
def test_denied_name_is_rejected_when_the_file_exists(files: Files, name: str):
    target = files.root / name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("secret")
    with pytest.raises(PathDenied):
        files.read(name)


@pytest.mark.parametrize("name", HARMLESS, ids=ascii)
def test_harmless_name_is_read(files: Files, name: str):
    target = files.root / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("fine")
    assert files.read(name).data == b"fine"


PARTS = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(
    st.lists(st.sampled_from(["..", ".", ".env", ".git", "src", "a.txt", "x", "link", ""]) | PARTS, max_size=6),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_no_file_outside_the_root_is_opened(tmp_path_factory, parts: list[str], rooted: bool):
    base = tmp_path_factory.getbasetemp() / "hypothesis-gate"
    root = base / "root"
    if not root.exists():
        (root / "src").mkdir(parents=True)
        (root / "src" / "a.txt").write_text("inside")
        (root / "a.txt").write_text("inside")
        (base / "a.txt").write_text("outside")
        (root / "link").symlink_to("..")
    try:
        file = Files(root).read(("/" if rooted else "") + "/".join(parts))
    except ClientError:
        return
    assert file.data == b"inside"


@given(st.lists(st.from_regex(r"[a-z0-9][a-z0-9_. -]{0,10}[a-z0-9]", fullmatch=True), min_size=1, max_size=5))
def test_plain_name_is_never_rejected(parts: list[str]):
    if any(
        part.endswith((".pem", ".key", ".p12", ".pfx", ".jks")) or part in ("node_modules", "id_rsa") for part in parts
    ):
        return
    assert PathRules(SECRET_NAMES).check("/".join(parts)) == tuple(parts)


def test_a_link_that_stays_inside_is_followed(files: Files):
    (files.root / "near").symlink_to("src/a.txt")
    (files.root / "src" / "up").symlink_to("../src/./a.txt")
    (files.root / "folder").symlink_to("src")
    (files.root / "absolute").symlink_to(files.root / "src" / "a.txt")
    for name in ("near", "src/up", "folder/a.txt", "absolute"):
        assert (files.read(name).data, files.read(name).path) == (b"inside\n", "src/a.txt")


@pytest.mark.parametrize("target", ["../outside.txt", "../missing.txt", "/etc/passwd", "src/../../outside.txt", "/"])
def test_link_to_outside_is_denied_whether_or_not_its_target_exists(files: Files, target: str):
    (files.root / "link").symlink_to(target)
    with pytest.raises(PathDenied):
        files.read("link")
    with pytest.raises(PathDenied):
        files.read("link/passwd")


@pytest.mark.parametrize("target", [".env", ".env.missing", ".git/config", ".shopfloor/shopfloor.db", "src/../.env"])
def test_link_to_a_blocked_file_is_denied(files: Files, target: str):
    (files.root / "innocent.txt").symlink_to(target)
    with pytest.raises(PathDenied):
        files.read("innocent.txt")


def test_the_data_folder_is_denied_under_any_name(tmp_path: Path):
    root = tmp_path / "project"
    (root / "state").mkdir(parents=True)
    (root / "state" / "floor.db").write_text("rows")
    (root / "other").symlink_to("state")
    files = Files(root, root / "state")
    for name in ("state/floor.db", "STATE/floor.db", "other/floor.db"):
        with pytest.raises(PathDenied):
            files.read(name)


def test_the_default_data_folder_is_denied_when_another_is_used(tmp_path: Path):
    (tmp_path / ".shopfloor").mkdir()
    (tmp_path / ".shopfloor" / "operator.token").write_text("secret")
    with pytest.raises(PathDenied):
        Files(tmp_path, tmp_path / "elsewhere").read(".shopfloor/operator.token")


def test_cyclic_link_is_not_found(files: Files):
    (files.root / "a").symlink_to("b")
    (files.root / "b").symlink_to("a")
    with pytest.raises(FileNotFound):
        files.read("a")


def test_link_swapped_during_the_call_never_resolves_outside(files: Files):
    """Read a folder while a thread turns it into a link and back as fast as it can."""
    inner, spare = files.root / "inner", files.root / "spare"
    inner.mkdir()
    (inner / "outside.txt").write_text("inside\n")
    spare.symlink_to(files.root.parent)
    stop = threading.Event()

    def swap() -> None:
        hidden = files.root / "hidden"
        while not stop.is_set():
            inner.rename(hidden)
            spare.rename(inner)
            inner.rename(spare)
            hidden.rename(inner)

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen: set[bytes | str] = set()
    try:
        for _ in range(3000):
            try:
                seen.add(files.read("inner/outside.txt").data)
            except ClientError as error:
                seen.add(type(error).__name__)
    finally:
        stop.set()
        swapper.join()
    assert b"outside\n" not in seen
    assert b"inside\n" in seen


def test_pipes_sockets_devices_and_folders_are_not_files(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    os.mkfifo(files.root / "pipe")
    monkeypatch.chdir(files.root)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        for name in ("pipe", "socket", "src", "."):
            with pytest.raises(NotAFile):
                files.read(name)
    (files.root / "null").symlink_to("/dev/null")
    with pytest.raises(PathDenied):
        files.read("null")


def test_the_size_limit_is_exact(files: Files):
    for size in (MAX_FILE_BYTES - 1, MAX_FILE_BYTES):
        (files.root / "size.txt").write_bytes(b"x" * size)
        assert len(files.read("size.txt").data) == size
    (files.root / "size.txt").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    with pytest.raises(FileTooLarge) as rejection:
        files.read("size.txt")
    assert rejection.value.facts == {"path": "size.txt", "size": MAX_FILE_BYTES + 1, "limit": 1_048_576}


@pytest.mark.parametrize("name", ["missing.txt", "src/a.txt/b", "x" * 300, "a/" * 3000 + "b", "src/missing/deep.txt"])
def test_missing_file_is_not_found(files: Files, name: str):
    with pytest.raises(FileNotFound):
        files.read(name)


def test_folder_lists_only_readable_files(files: Files):
    (files.root / "id_rsa").write_text("key")
    (files.root / "b.txt").write_text("b")
    (files.root / "link").symlink_to("b.txt")
    assert files.list_names("") == ["b.txt"]
    assert files.list_names("", folders=True) == ["src"]
    assert files.list_names("..") == files.list_names("missing") == []
