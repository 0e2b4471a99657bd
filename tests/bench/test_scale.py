"""The generated project of the benchmark of sizes has words as real code has, and queries that it can answer."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path

from bench.scale import WORST_CASE, ask_question, generate_tree, list_code_words


def test_words_of_the_generated_code_are_distributed_as_in_real_code(tmp_path: Path):
    paths = generate_tree(tmp_path, 400)
    known = set(list_code_words())
    counts = Counter(word for path in paths for word in known & set(re.findall("[a-z]+", path.read_text().lower())))
    # Some words, such as `import`, are in the template of every file.
    shares = [count / len(paths) for _, count in counts.most_common() if count < len(paths)]
    assert len(known) == 20_000
    assert 0.5 < shares[0] < 0.8
    assert shares[100] < 0.05
    assert sum(share == shares[-1] for share in shares) > len(shares) / 2, "most words are rare"


def test_questions_are_about_words_of_the_files(tmp_path: Path):
    for words in ("code", WORST_CASE):
        paths = generate_tree(tmp_path / words, 60, words)
        text = " ".join(path.read_text() for path in paths).lower()
        chosen = random.Random(2)
        questions = [ask_question(chosen, paths, words) for _ in range(30)]
        assert len(set(questions)) > 20
        assert all(any(word in text for word in re.findall(r"\w{4,}", question.lower())) for question in questions)


def test_the_generated_project_is_the_same_each_time(tmp_path: Path):
    first, second = (generate_tree(tmp_path / name, 30) for name in "ab")
    assert [path.read_text() for path in first] == [path.read_text() for path in second]
