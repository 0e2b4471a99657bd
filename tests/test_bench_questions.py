"""The questions that code search is judged by: their form, their number, and that their files exist."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml

from bench.code_search import (
    HALVES,
    KINDS,
    QUESTIONS,
    TRAINING,
    TRAINING_KINDS,
    TRAINING_QUESTIONS,
    Package,
    Question,
    load_package,
    load_packages,
    score_question,
    summarize,
)
from bench.corpora import REGISTRIES, FetchError, fetch

PATHS = sorted(QUESTIONS.glob("*.yaml"))
TRAINING_PATHS = sorted(TRAINING_QUESTIONS.glob("*.yaml"))
FIELDS = {"package", "version", "registry", "root", "language", "half", "questions"}
MIN_QUESTIONS, MIN_PACKAGES, MIN_LANGUAGES = 400, 20, 15
MAX_FILES_PER_QUESTION = 3


@pytest.fixture(scope="module")
def packages() -> list[Package]:
    return load_packages()


@pytest.mark.parametrize("path", [*PATHS, *TRAINING_PATHS], ids=lambda path: path.stem)
def test_a_question_file_has_the_fields_that_are_read(path: Path) -> None:
    training = path.parent == TRAINING_QUESTIONS
    given = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert set(given) | {"root"} == FIELDS
    assert all(isinstance(given[field], str) and given[field] for field in set(given) - {"questions"})
    assert given["registry"] in REGISTRIES
    assert given["half"] in ((TRAINING,) if training else HALVES)
    for question in given["questions"]:
        assert set(question) == {"ask", "kind", "files"}
        assert isinstance(question["ask"], str)
        assert len(question["ask"]) > 2
        assert question["kind"] in (TRAINING_KINDS if training else KINDS)
        assert 1 <= len(question["files"]) <= MAX_FILES_PER_QUESTION
        assert len(set(question["files"])) == len(question["files"])
        assert not any(file.startswith(("/", "./")) or ".." in file.split("/") for file in question["files"])


@pytest.mark.parametrize("path", [*PATHS, *TRAINING_PATHS], ids=lambda path: path.stem)
def test_a_third_of_the_questions_of_a_package_is_of_each_kind(path: Path) -> None:
    kinds = Counter(question.kind for question in load_package(path).questions)
    assert set(kinds) == set(TRAINING_KINDS if path.parent == TRAINING_QUESTIONS else KINDS)
    assert max(kinds.values()) - min(kinds.values()) <= 1


def test_no_question_is_asked_twice(packages: list[Package]) -> None:
    everywhere = [*packages, *load_packages(TRAINING_QUESTIONS)]
    asks = Counter(question.ask.casefold() for package in everywhere for question in package.questions)
    assert [ask for ask, count in asks.items() if count > 1] == []


def test_the_set_is_large_enough(packages: list[Package]) -> None:
    assert sum(len(package.questions) for package in packages) >= MIN_QUESTIONS
    assert len(packages) >= MIN_PACKAGES
    assert len({package.language for package in packages}) >= MIN_LANGUAGES


def test_half_of_the_packages_is_for_judging(packages: list[Package]) -> None:
    halves = Counter(package.half for package in packages)
    assert abs(halves["tune"] - halves["judge"]) <= 1


def test_a_language_with_two_packages_is_in_both_halves(packages: list[Package]) -> None:
    halves: dict[str, list[str]] = {}
    for package in packages:
        halves.setdefault(package.language, []).append(package.half)
    assert {language for language, found in halves.items() if len(found) > 1 and len(set(found)) == 1} == set()


def test_a_package_is_in_one_half_only(packages: list[Package]) -> None:
    # Otherwise a rule that is tuned on one folder of a repository is judged on another folder of it.
    halves: dict[str, set[str]] = {}
    for package in packages:
        halves.setdefault(package.name, set()).add(package.half)
    assert {name for name, found in halves.items() if len(found) > 1} == set()


def test_no_training_package_is_for_judging(packages: list[Package]) -> None:
    names = {package.name for package in packages if package.half == "judge"}
    assert names & {package.name for package in load_packages(TRAINING_QUESTIONS)} == set()


def test_an_unknown_registry_is_reported_before_anything_is_fetched() -> None:
    with pytest.raises(FetchError, match=r"Unknown registry 'cpan'; expected one of pypi, npm, debian, debian-source"):
        fetch("cpan", "no-such-package", "0")


def test_files_are_ranked_by_their_best_chunk() -> None:
    package, question = _ask("a.py", "b.py")
    score = score_question(package, question, ["x.py", "x.py", "a.py", "x.py", "b.py"])
    assert (score.place, score.recall) == (2, 1.0)
    assert score.ndcg == pytest.approx((0.6309 + 0.5) / (1 + 0.6309), abs=0.001)


def test_a_file_after_the_first_ten_does_not_count() -> None:
    package, question = _ask("a.py")
    score = score_question(package, question, [*(f"{number}.py" for number in range(10)), "a.py"])
    assert (score.place, score.ndcg, score.recall) == (None, 0.0, 0.0)


def test_each_package_counts_the_same_in_a_mean() -> None:
    many, question = _ask("a.py")
    few, _ = _ask("a.py", title="few")
    right = [score_question(many, question, ["a.py"])] * 3
    row = summarize("both", [*right, score_question(few, question, ["x.py"])])
    assert (row["questions"], row["NDCG@10"], row["MRR@10"], row["recall@10"]) == (4, 0.5, 0.5, 0.5)


def _ask(*files: str, title: str = "many") -> tuple[Package, Question]:
    question = Question("where is it", "meaning", files)
    return Package(title, title, "1", "pypi", "Python", "tune", "", (question,)), question


@pytest.mark.long
@pytest.mark.parametrize("path", [*PATHS, *TRAINING_PATHS], ids=lambda path: path.stem)
def test_the_files_that_answer_a_question_exist(path: Path) -> None:
    package = load_package(path)
    folder = package.fetch()
    missing = [file for each in package.questions for file in each.files if not (folder / file).is_file()]
    assert missing == []
