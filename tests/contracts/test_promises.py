"""Every promise of the five contracts has tests that exist, and every contract test holds a promise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.contracts.promises import CHECKOUT, PAGES, Promise, find_faults, list_page_ids, list_tests, load_promises

CONTRACT_TESTS = (
    "tests/contracts/*/test_*.py",
    "tests/toolsets/todo/test_todo.py",
    "tests/toolsets/todo/test_todo_direct.py",
)

HOLDS_NO_PROMISE = {
    "tests/toolsets/todo/test_todo.py::test_execute_wraps_results_in_the_factory_envelope": "POST /mcp/execute is the factory's",
}


@pytest.mark.parametrize("contract", PAGES)
def test_every_promise_has_words_a_section_and_tests_that_exist(contract):
    assert list(find_faults(load_promises(contract), list_page_ids(contract))) == []


def test_every_contract_test_holds_a_promise():
    files = [file.relative_to(CHECKOUT) for pattern in CONTRACT_TESTS for file in CHECKOUT.glob(pattern)]
    defined = {f"{file}::{name}" for file in files for name in list_tests(str(file))}
    held = {test for contract in PAGES for promise in load_promises(contract) for test in promise.tests}
    assert defined - held == set(HOLDS_NO_PROMISE)


GOOD = Promise(
    "x", "Overview", (f"tests/contracts/test_promises.py::{test_every_contract_test_holds_a_promise.__name__}",), "w"
)


@pytest.mark.parametrize(
    ("promises", "fault"),
    [
        ((GOOD, GOOD), "x: used 2 times"),
        ((replace(GOOD, words=None),), "x: words of the contract belong to a section, and what is settled has none"),
        (
            (replace(GOOD, section="settled"),),
            "x: words of the contract belong to a section, and what is settled has none",
        ),
        ((replace(GOOD, tests=()),), "x: has no test"),
        ((replace(GOOD, tests=("tests/none.py::test_x",)),), "x: tests/none.py::test_x does not exist"),
        ((), "x: described in docs/contracts, but not in the manifest"),
        ((GOOD, replace(GOOD, id="y")), "y: not described in docs/contracts"),
    ],
)
def test_a_wrong_manifest_is_found(promises, fault):
    assert list(find_faults((GOOD,), ["x"])) == []
    assert list(find_faults(promises, ["x"])) == [fault]
