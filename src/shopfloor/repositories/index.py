"""The rows of the index: files, passages, words and vectors. The two engines differ in how words are found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from shopfloor.domain.index import Filed, Hit, Passage, Scope
from shopfloor.store.database import Connection, Row

_HIT = "p.id, p.root, p.source, p.ref, p.type, p.module, p.name, p.start_line, p.end_line, p.changed_at, p.digest"
_FINDABLE = (
    "(p.owner IS NULL OR p.owner = :reader OR EXISTS (SELECT 1 FROM receipt r WHERE r.workspace = p.workspace"
    " AND r.recipient = :reader AND r.mail = CASE WHEN p.source = 'mail' THEN CAST(p.ref AS BIGINT) END))"
)
"""What is owned is found by its owner, and mail by those who received it."""
_SCORE = "-bm25(passage_words, 5.0, 2.0, 2.0, 1.0)"
"""What a word counts in the name, the path, the signature and the body."""
_FEW = 2
_MOST = 12
"""Terms that are looked for. On the tuning half of docstring → function, fused, MRR@10 is 0.636 with 10 or 14 of them
and 0.635 with all; the time of the longest questions is halved."""
_COMMON = 0.2
"""The share of passages from which on a word tells nothing. On the same, 0.1 has 0.633, 0.05 has 0.626."""
_NOT_A_WORD = re.compile(r"[^\w]+|_+")


class Index:
    """What can be found in one project, and in what its team wrote."""

    def __init__(self, connection: Connection, workspace: int, root: str, reader: str) -> None:
        self._connection = connection
        self._workspace = workspace
        self._root = root
        self._reader = reader

    # Files

    def stamps(self) -> dict[str, str]:
        """Every indexed file, with what it looked like from outside."""
        rows = self._connection.all(
            "SELECT path, stamp FROM indexed_file WHERE workspace = :workspace AND root = :root",
            workspace=self._workspace,
            root=self._root,
        )
        return dict(rows)

    def digests(self, paths: Sequence[str]) -> dict[str, bytes]:
        """The contents that these files had when they were indexed."""
        if not paths:
            return {}
        named = {f"path{number}": path for number, path in enumerate(paths)}
        rows = self._connection.all(
            "SELECT path, digest FROM indexed_file WHERE workspace = :workspace AND root = :root"
            f" AND path IN ({', '.join(f':{name}' for name in named)})",
            workspace=self._workspace,
            root=self._root,
            **named,
        )
        return {path: bytes(digest) for path, digest in rows}

    def paths_named(self, name: str, limit: int) -> list[str]:
        """Files of that name, wherever they lie."""
        rows = self._connection.all(
            "SELECT path FROM indexed_file WHERE workspace = :workspace AND root = :root AND name = :name"
            " ORDER BY path LIMIT :limit",
            workspace=self._workspace,
            root=self._root,
            name=name,
            limit=limit,
        )
        return [path for (path,) in rows]

    def count_by(self, column: str) -> list[tuple[str, int]]:
        """How many files there are of each language, module or role, most first."""
        assert column in ("language", "module", "role")
        rows = self._connection.all(
            f"SELECT {column}, COUNT(*) AS files FROM indexed_file WHERE workspace = :workspace AND root = :root"
            f" GROUP BY {column} ORDER BY files DESC, {column}",
            workspace=self._workspace,
            root=self._root,
        )
        return [(value, int(files)) for value, files in rows]

    def file(self, batch: Sequence[tuple[Filed, Sequence[Passage]]]) -> None:
        """Put files into the index in place of what was known of them."""
        for file, _ in batch:
            self._connection.execute(
                "INSERT INTO indexed_file (workspace, root, path, name, stamp, digest, language, module, role, modified)"
                " VALUES (:workspace, :root, :path, :name, :stamp, :digest, :language, :module, :role, :modified)"
                " ON CONFLICT (workspace, root, path) DO UPDATE SET stamp = :stamp, digest = :digest,"
                " language = :language, module = :module, role = :role, modified = :modified",
                workspace=self._workspace,
                root=self._root,
                path=file.path,
                name=file.path.rpartition("/")[2],
                stamp=file.stamp,
                digest=file.digest,
                language=file.language,
                module=file.module,
                role=file.role,
                modified=file.modified,
            )
        self.replace(self._root, "code", {file.path: passages for file, passages in batch})

    def restamp(self, path: str, stamp: str) -> None:
        """The file looks different from outside, and is the same inside."""
        self._connection.execute(
            "UPDATE indexed_file SET stamp = :stamp WHERE workspace = :workspace AND root = :root AND path = :path",
            workspace=self._workspace,
            root=self._root,
            path=path,
            stamp=stamp,
        )

    def drop(self, paths: Sequence[str]) -> None:
        """Forget files."""
        self.replace(self._root, "code", dict.fromkeys(paths, ()))
        for path in paths:
            self._connection.execute(
                "DELETE FROM indexed_file WHERE workspace = :workspace AND root = :root AND path = :path",
                workspace=self._workspace,
                root=self._root,
                path=path,
            )

    # Passages

    def replace(self, root: str, source: str, things: Mapping[str, Sequence[Passage]]) -> None:
        """Put passages in place of those that came from the same things.

        Rows first, words after: FTS5 writes out what it has gathered whenever another table is written to.
        """
        for ref in things:
            self._remove(root, source, ref)
        added = [
            (id, passage)
            for ref, passages in things.items()
            for ordinal, passage in enumerate(passages)
            if (id := self._add(root, source, ref, ordinal, passage)) is not None
        ]
        for id, passage in added:
            self._add_words(id, passage)

    def _remove(self, root: str, source: str, ref: str) -> None:
        where = {"workspace": self._workspace, "root": root, "source": source, "ref": ref}
        old = "SELECT id FROM passage WHERE workspace = :workspace AND root = :root AND source = :source AND ref = :ref"
        if self._connection.engine == "sqlite":
            self._connection.execute(f"DELETE FROM passage_words WHERE rowid IN ({old})", **where)
        self._connection.execute(f"DELETE FROM passage WHERE id IN ({old})", **where)

    def _add(self, root: str, source: str, ref: str, ordinal: int, passage: Passage) -> int | None:
        """The number of a new passage; None while another process is putting the same thing in."""
        row = self._connection.one(
            "INSERT INTO passage (workspace, root, source, ref, ordinal, type, module, name, start_line, end_line, owner,"
            " changed_at, digest) VALUES (:workspace, :root, :source, :ref, :ordinal, :type, :module, :name, :start_line,"
            " :end_line, :owner, :changed_at, :digest)"
            " ON CONFLICT (workspace, root, source, ref, ordinal) DO NOTHING RETURNING id",
            workspace=self._workspace,
            root=root,
            source=source,
            ref=ref,
            ordinal=ordinal,
            type=passage.type,
            module=passage.module,
            name=passage.name,
            start_line=passage.start_line,
            end_line=passage.end_line,
            owner=passage.owner,
            changed_at=passage.changed_at,
            digest=passage.digest,
        )
        return None if row is None else int(row[0])

    def _add_words(self, id: int, passage: Passage) -> None:
        fields = dict(zip(("name", "path", "signature", "body"), passage.words, strict=True))
        if self._connection.engine == "sqlite":
            self._connection.execute(
                "INSERT INTO passage_words (rowid, name, path, signature, body)"
                " VALUES (:id, :name, :path, :signature, :body)",
                id=id,
                **fields,
            )
        else:
            self._connection.execute(
                "INSERT INTO passage_words (id, words) VALUES (:id,"
                " setweight(to_tsvector('english', :name), 'A') || setweight(to_tsvector('english', :path), 'B') ||"
                " setweight(to_tsvector('english', :signature), 'C') || setweight(to_tsvector('english', :body), 'D'))",
                id=id,
                **{field: _NOT_A_WORD.sub(" ", text)[:500_000] for field, text in fields.items()},
            )

    def newest_written(self, source: str) -> int:
        """The time of the latest thing of a source that is in the index; 0 when there is none."""
        row = self._connection.one(
            "SELECT changed_at FROM passage WHERE workspace = :workspace AND root = '' AND source = :source"
            " ORDER BY changed_at DESC LIMIT 1",
            workspace=self._workspace,
            source=source,
        )
        return int(row[0]) if row else 0

    def empty(self) -> bool:
        """Whether there is nothing to be found."""
        row = self._connection.one(
            "SELECT 1 FROM passage WHERE workspace = :workspace AND root IN (:root, '') LIMIT 1",
            workspace=self._workspace,
            root=self._root,
        )
        return row is None

    # Search

    def by_words(self, terms: Sequence[str], scope: Scope, limit: int) -> list[Hit]:
        """The passages that have most of these words, best first."""
        if not terms:
            return []
        if self._connection.engine == "sqlite":
            query = " OR ".join(f'"{term}"' for term in self._telling(terms))
            hits = None if scope.narrow else self._best_by_words(query, scope, limit)
            return self._all_by_words(query, scope, limit) if hits is None else hits
        where, params = self._where(scope)
        rows = self._connection.all(
            f"SELECT {_HIT}, ts_rank('{{0.2, 0.4, 0.4, 1.0}}', w.words, q.query, 1) AS score"
            " FROM (SELECT to_tsquery('english', :query) AS query) q"
            f" JOIN passage_words w ON w.words @@ q.query JOIN passage p ON p.id = w.id WHERE {where}"
            " ORDER BY score DESC, p.id LIMIT :limit",
            query=" | ".join(f"'{term}'" for term in terms),
            limit=limit,
            **params,
        )
        return [_hit(row[:-1]) for row in rows]

    def _best_by_words(self, query: str, scope: Scope, limit: int) -> list[Hit] | None:
        """The same from the best of all passages, at half the cost; None when too many of them are others'."""
        best = self._connection.all(
            f"SELECT rowid, {_SCORE} AS score FROM passage_words WHERE passage_words MATCH :query"
            " ORDER BY score DESC, rowid LIMIT :limit",
            query=query,
            limit=limit * 2,
        )
        where, params = self._where(scope)
        hits: list[Hit] = []
        for start in range(0, len(best), limit):
            place = {int(id): number for number, (id, _) in enumerate(best[start : start + limit])}
            listed = ", ".join(map(str, place))
            rows = self._connection.all(
                f"SELECT {_HIT} FROM passage p NOT INDEXED WHERE p.id IN ({listed}) AND {where}", **params
            )
            hits += sorted(map(_hit, rows), key=lambda hit: place[hit.id])
            if len(hits) >= limit:
                return hits[:limit]
        return hits if len(best) < limit * 2 else None

    def _all_by_words(self, query: str, scope: Scope, limit: int) -> list[Hit]:
        where, params = self._where(scope)
        rows = self._connection.all(
            f"SELECT {_HIT}, {_SCORE} AS score FROM passage_words JOIN passage p ON p.id = passage_words.rowid"
            f" WHERE passage_words MATCH :query AND {where} ORDER BY score DESC, p.id LIMIT :limit",
            query=query,
            limit=limit,
            **params,
        )
        return [_hit(row[:-1]) for row in rows]

    def _telling(self, terms: Sequence[str]) -> Sequence[str]:
        """The rarest terms, without those that stand everywhere: they tell passages apart, and others cost most."""
        if len(terms) <= _FEW:
            return terms
        row = self._connection.one("SELECT count(*) FROM passage")
        most = int(row[0]) * _COMMON if row else 0
        counts = {term: self._count(term) for term in terms}
        telling = [term for term in terms if counts[term] <= most]
        return sorted(telling if len(telling) >= _FEW else terms, key=counts.__getitem__)[:_MOST]

    def _count(self, term: str) -> int:
        row = self._connection.one(
            "SELECT count(*) FROM passage_words WHERE passage_words MATCH :term", term=f'"{term}"'
        )
        return int(row[0]) if row else 0

    def by_name(self, name: str, scope: Scope, limit: int) -> list[Hit]:
        """The passages of code that define something of exactly that name."""
        where, params = self._where(scope)
        rows = self._connection.all(
            f"SELECT {_HIT} FROM passage p WHERE {where} AND p.root = :root AND p.name = :name ORDER BY p.id LIMIT :limit",
            name=name,
            limit=limit,
            **params,
        )
        return [_hit(row) for row in rows]

    def by_digest(self, digests: Sequence[bytes], scope: Scope) -> list[Hit]:
        """The passages whose text is one of these."""
        if not digests:
            return []
        where, params = self._where(scope)
        named = {f"digest{number}": digest for number, digest in enumerate(digests)}
        rows = self._connection.all(
            f"SELECT {_HIT} FROM passage p WHERE p.workspace = :workspace"
            f" AND p.digest IN ({', '.join(f':{name}' for name in named)}) AND {where}",
            **named,
            **params,
        )
        return [_hit(row) for row in rows]

    def digests_in(self, scope: Scope) -> set[bytes]:
        """The texts that lie within the scope."""
        where, params = self._where(scope)
        rows = self._connection.all(f"SELECT DISTINCT p.digest FROM passage p WHERE {where}", **params)
        return {bytes(digest) for (digest,) in rows}

    def _where(self, scope: Scope) -> tuple[str, dict[str, object]]:
        """The condition that keeps to this project, this reader and the scope."""
        where = f"p.workspace = :workspace AND p.root IN (:root, '') AND {_FINDABLE}"
        params: dict[str, object] = {"workspace": self._workspace, "root": self._root, "reader": self._reader}
        if scope.sources is not None:
            names = {f"source{number}": source for number, source in enumerate(scope.sources)}
            where += f" AND p.source IN ({', '.join(f':{name}' for name in names)})"
            params |= names
        if scope.type is not None:
            where += " AND p.type = :type"
            params["type"] = scope.type
        if scope.module is not None:
            where += " AND p.module = :module"
            params["module"] = scope.module
        return where, params

    # Vectors

    def without_vector(self, model: str, limit: int) -> list[Hit]:
        """Passages whose text no vector stands for yet, the latest first."""
        rows = self._connection.all(
            f"SELECT {_HIT} FROM passage p WHERE p.workspace = :workspace AND p.root IN (:root, '') AND NOT EXISTS"
            " (SELECT 1 FROM vector v WHERE v.workspace = p.workspace AND v.model = :model AND v.digest = p.digest)"
            " ORDER BY p.changed_at DESC LIMIT :limit",
            workspace=self._workspace,
            root=self._root,
            model=model,
            limit=limit,
        )
        return [_hit(row) for row in rows]

    def vector_progress(self, model: str) -> tuple[int, int]:
        """How many passages have a vector, and how many there are."""
        row = self._connection.one(
            "SELECT COUNT(v.id), COUNT(*) FROM passage p LEFT JOIN vector v ON v.workspace = p.workspace"
            " AND v.model = :model AND v.digest = p.digest WHERE p.workspace = :workspace AND p.root IN (:root, '')",
            workspace=self._workspace,
            root=self._root,
            model=model,
        )
        return (int(row[0]), int(row[1])) if row else (0, 0)

    def keep_vectors(self, model: str, vectors: Iterable[tuple[bytes, bytes]]) -> None:
        """Vectors for texts; whoever was first stays."""
        for digest, value in vectors:
            self._connection.execute(
                "INSERT INTO vector (workspace, model, digest, value) VALUES (:workspace, :model, :digest, :value)"
                " ON CONFLICT (workspace, model, digest) DO NOTHING",
                workspace=self._workspace,
                model=model,
                digest=digest,
                value=value,
            )

    def vectors_after(self, model: str, id: int, limit: int) -> list[tuple[int, bytes, bytes]]:
        """The next vectors, in the order in which they were made."""
        rows = self._connection.all(
            "SELECT id, digest, value FROM vector WHERE workspace = :workspace AND model = :model AND id > :id"
            " ORDER BY id LIMIT :limit",
            workspace=self._workspace,
            model=model,
            id=id,
            limit=limit,
        )
        return [(int(number), bytes(digest), bytes(value)) for number, digest, value in rows]

    def vectors_of(self, model: str, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """The vectors of these texts."""
        if not digests:
            return {}
        named = {f"digest{number}": digest for number, digest in enumerate(digests)}
        rows = self._connection.all(
            "SELECT digest, value FROM vector WHERE workspace = :workspace AND model = :model"
            f" AND digest IN ({', '.join(f':{name}' for name in named)})",
            workspace=self._workspace,
            model=model,
            **named,
        )
        return {bytes(digest): bytes(value) for digest, value in rows}

    def forget_vectors(self, keep: int, limit: int) -> int:
        """How many vectors were dropped whose text is nowhere any more; the latest of them are kept for its return."""
        return self._connection.execute(
            "DELETE FROM vector WHERE id IN (SELECT v.id FROM vector v WHERE v.workspace = :workspace AND NOT EXISTS"
            " (SELECT 1 FROM passage p WHERE p.workspace = v.workspace AND p.digest = v.digest)"
            " ORDER BY v.id DESC LIMIT :limit OFFSET :keep)",
            workspace=self._workspace,
            keep=keep,
            limit=limit,
        )


def _hit(row: Row) -> Hit:
    return Hit(*row)
