"""Keeping the index up to date: with the files, with what was written, and with vectors for both."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from shopfloor.domain.chunks import VERSION, digest_of
from shopfloor.domain.index import Filed, Hit, Passage, Written, findable, meaning_of, passage_of, passages_of
from shopfloor.domain.places import language_of, module_of, role_of
from shopfloor.domain.times import MINUTE
from shopfloor.errors import EmbeddingFailed, Refused
from shopfloor.gateways.chunks import chunks_of
from shopfloor.gateways.embeddings import Embeddings
from shopfloor.gateways.files import Files
from shopfloor.gateways.tree import Looks, Tree, settled
from shopfloor.gateways.vectors import Vectors, length_of, packed
from shopfloor.repositories.work import Outside, Work
from shopfloor.usecases.sources import SOURCES, Source

BATCH = 500
"""Files and passages that are written in one transaction, which takes some 15 ms."""

EMBEDDED = 64
"""Passages that are embedded before the vectors are kept and others may go first."""

_LATE = 10 * MINUTE
"""How late a write may become visible after the time that it carries."""

_MANY = 500
_QUEUED = 1000
_MOMENT = 2.0
_TELLING = 0.1
_LONG = 30.0
_PAGE = 5000
_OVERLAP = 1000

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Freshness:
    """How well the index fits what it is about."""

    files: int
    changed: int
    """Files that changed and are not in the index yet."""
    written: bool = True
    """Whether all that was written is in the index."""

    @property
    def complete(self) -> bool:
        return self.changed == 0 and self.written

    @property
    def percentage(self) -> int:
        if not self.files:
            return 0 if self.changed else 100
        return max(0, min(100, (self.files - self.changed) * 100 // self.files))


def refresh(
    outside: Outside,
    seconds: float,
    *,
    patience: float = 0.0,
    thoroughly: bool = False,
    look: bool = True,
    progress: Progress = lambda _, __: None,
) -> Freshness:
    """Bring the index up to date with the files, for so long after a look at them; whoever comes while another does it
    goes on as it is.

    Without a look, what was seen to have changed before is gone on with.
    """
    tree = outside.the(Tree)
    if not _took_turn(tree, patience, progress):
        return Freshness(tree.total, max(1, len(tree.pending)))
    try:
        if look or not tree.pending:
            _compare(outside, tree, thoroughly=thoroughly)
        if tree.pending:
            _index(outside, tree, time.monotonic() + seconds, progress)
        progress(tree.total - len(tree.pending), tree.total)
        return Freshness(tree.total, len(tree.pending))
    finally:
        tree.turn.release()


def _took_turn(tree: Tree, patience: float, progress: Progress) -> bool:
    """Whether it is this one's turn; while another has it, how far that one is."""
    until = time.monotonic() + patience
    while not tree.turn.acquire(timeout=min(_TELLING, max(0.0, until - time.monotonic()))):
        progress(tree.total - len(tree.pending), tree.total)
        if time.monotonic() >= until:
            return False
    return True


def _index(outside: Outside, tree: Tree, deadline: float, progress: Progress) -> None:
    """Index what is pending, until then, but something in any case. While one batch is written, the next is read."""
    batch: list[tuple[Filed, list[Passage]]] = []
    with ThreadPoolExecutor(1, thread_name_prefix="shopfloor-index") as hand:
        writing: Future[None] | None = None
        while tree.pending:
            path = tree.pending.pop()
            batch.append(_filed(outside, path, tree.looks[path]))
            if time.monotonic() > deadline:
                break
            if sum(1 + len(passages) for _, passages in batch) >= BATCH:
                if writing is not None:
                    writing.result()
                    progress(tree.total - len(tree.pending) - len(batch), tree.total)
                writing = hand.submit(_keep, outside, tree, batch)
                batch = []
        if writing is not None:
            writing.result()
    _keep(outside, tree, batch)


def _compare(outside: Outside, tree: Tree, *, thoroughly: bool) -> None:
    """See what changed, and forget what is gone."""
    if tree.known is None:
        tree.known = outside.read(lambda work: work.index.stamps())
    looks = tree.looks = tree.look(thoroughly=thoroughly)
    known = tree.known
    changed = [path for path, look in looks.items() if known.get(path) != look.stamp]
    tree.pending = sorted(changed, key=lambda path: looks[path].modified)
    tree.total = len(looks)
    gone = [path for path in known if path not in looks]
    for start in range(0, len(gone), BATCH):
        some = gone[start : start + BATCH]
        outside.write(lambda work, some=some: work.index.drop(some))  # type: ignore[misc]
        for path in some:
            del known[path]


def _filed(outside: Outside, path: str, looks: Looks) -> tuple[Filed, list[Passage]]:
    """A file and its passages; one that may not be read or is no text is known, and cannot be found."""
    language = language_of(path)
    try:
        data = outside.the(Files).read(path).data
    except Refused:
        data = b"\0"
    stamp = settled(looks, time.time_ns() // 1000)
    file = Filed(path, stamp, digest_of_data(data), language, module_of(path), role_of(path), looks.modified)
    if b"\0" in data:
        return file, []
    return file, passages_of(file, chunks_of(language, data))


def _keep(outside: Outside, tree: Tree, batch: Sequence[tuple[Filed, list[Passage]]]) -> None:
    if not batch:
        return
    assert tree.known is not None
    cut = {file.path for file, _ in batch if tree.known.get(file.path, "").startswith(f"{VERSION}:")}

    def write(work: Work) -> None:
        before = work.index.digests([file.path for file, _ in batch])
        same = {file.path for file, _ in batch if before.get(file.path) == file.digest and file.path in cut}
        work.index.file([each for each in batch if each[0].path not in same])
        for file, _ in batch:
            if file.path in same:
                work.index.restamp(file.path, file.stamp)

    outside.write(write)
    _stale(tree)
    for file, _ in batch:
        tree.known[file.path] = file.stamp


def _stale(tree: Tree) -> None:
    """What was counted and queued of the passages no longer holds."""
    tree.embedded, tree.unembedded = None, []


def catch_up(outside: Outside, seconds: float = math.inf) -> bool:
    """Bring the index up to date with what was written, for so long; whether all of it is in."""
    deadline = time.monotonic() + seconds
    changed = outside.read(lambda work: [(source, _changes(source, work)) for source in SOURCES])
    return all(_put_all(outside, source, refs, deadline) for source, refs in changed if refs)


def _changes(source: Source, work: Work) -> list[str]:
    """What of a source is not in the index as it is now."""
    since = work.index.newest_written(source.name) - _LATE
    return [ref for _, ref in source.changed(work, since, _MANY)]


def _put_all(outside: Outside, source: Source, refs: Sequence[str], deadline: float) -> bool:
    while refs:
        _put(outside, source, refs)
        if len(refs) < _MANY:
            break
        if time.monotonic() > deadline:
            return False
        refs = outside.read(partial(_changes, source))
    return True


def _put(outside: Outside, source: Source, refs: Sequence[str]) -> None:
    """Put some of a source into the index as it is now; what is gone goes from there too."""
    written = outside.read(lambda work: {each.ref: passage_of(each) for each in source.some(work, refs)})

    def write(work: Work) -> None:
        work.index.replace("", source.name, {ref: [written[ref]] if ref in written else () for ref in refs})

    outside.write(write)
    _stale(outside.the(Tree))


def embed(outside: Outside, limit: int = EMBEDDED) -> int:
    """How many passages got their vector; none when all have one, or nobody makes any."""
    embeddings = outside.the(Embeddings)  # type: ignore[type-abstract]
    if not embeddings.ready():
        return 0
    texts = _next_texts(outside, embeddings.name, limit)
    if not texts:
        outside.the(Tree).embedded = None
        return 0
    digests = list(texts)
    rows = embeddings.embed([texts[digest] for digest in digests])
    first = outside.read(lambda work: work.index.vectors_after(embeddings.name, 0, 1))
    same_length(rows.shape[1], length_of(first[0][2]) if first else 0)
    made = [(digest, packed(row)) for digest, row in zip(digests, rows, strict=True)]
    outside.write(lambda work: work.index.keep_vectors(embeddings.name, made))
    return len(made)


def same_length(given: int, known: int) -> None:
    """Refuse vectors that cannot be compared with those that are there: they are another model's."""
    if known and given != known:
        raise EmbeddingFailed(
            details=f"Its vectors have {given} numbers, those of the index {known}: it is another model",
            hint="Name the model as it is: embeddings_model",
        )


def _next_texts(outside: Outside, model: str, limit: int) -> dict[bytes, str]:
    """What gets its vector next. Many are looked up at once: looking costs more than a few vectors do."""
    tree = outside.the(Tree)
    texts: dict[bytes, str] = {}
    looked = False
    while not texts:
        if not tree.unembedded and looked:
            break
        if not tree.unembedded:
            looked = True
            tree.unembedded = outside.read(lambda work: work.index.without_vector(model, _QUEUED))
        hits, tree.unembedded = tree.unembedded[:limit], tree.unembedded[limit:]
        texts = _texts(outside, hits)
    return texts


def embedded(outside: Outside) -> tuple[int, int]:
    """How many passages have a vector, and how many there are: as it was a moment ago, since it takes a while."""
    tree = outside.the(Tree)
    model = outside.the(Embeddings).name  # type: ignore[type-abstract]
    now = time.monotonic()
    if tree.embedded is not None:
        counted_at, (made, passages) = tree.embedded
        if now - counted_at < (_LONG if made >= passages else _MOMENT):
            return made, passages
    tree.embedded = now, outside.read(lambda work: work.index.vector_progress(model))
    return tree.embedded[1]


def _texts(outside: Outside, hits: Sequence[Hit]) -> dict[bytes, str]:
    """What a model is shown of each passage; those that changed meanwhile are left for the next time."""
    wanted = {hit.digest for hit in hits}
    texts: dict[bytes, str] = {}
    for path in dict.fromkeys(hit.ref for hit in hits if hit.source == "code"):
        try:
            data = outside.the(Files).read(path).data
        except Refused:
            continue
        for chunk in findable(chunks_of(language_of(path), data)):
            meaning = chunk.meaning
            if (digest := digest_of(meaning)) in wanted:
                texts[digest] = meaning
    for source in SOURCES:
        refs = [hit.ref for hit in hits if hit.source == source.name]
        for written in _some(outside, source, refs):
            texts[digest_of(meaning_of(written))] = meaning_of(written)
    return {digest: text for digest, text in texts.items() if digest in wanted}


def _some(outside: Outside, source: Source, refs: Sequence[str]) -> list[Written]:
    return outside.read(lambda work: source.some(work, refs)) if refs else []


def load_vectors(outside: Outside) -> Vectors:
    """The vectors in memory, with all that were made since they were last looked at."""
    vectors = outside.the(Vectors)
    model = outside.the(Embeddings).name  # type: ignore[type-abstract]
    late = _OVERLAP if outside.works.store.engine == "postgres" else 0  # its numbers do not arrive in order
    last = max(0, vectors.last - late)
    while made := outside.read(lambda work, last=last: work.index.vectors_after(model, last, _PAGE)):  # type: ignore[misc]
        vectors.add(made)
        last = made[-1][0]
        if len(made) < _PAGE:
            break
    return vectors


def digest_of_data(data: bytes) -> bytes:
    """What stands for the content of a file."""
    return hashlib.sha256(data).digest()[:16]
