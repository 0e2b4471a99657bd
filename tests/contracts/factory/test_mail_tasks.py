"""Every promise of the manifest has its test."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

CHECKOUT = Path(__file__).resolve().parents[3]
PROMISES = yaml.safe_load(Path(__file__).with_name("mail_tasks.yaml").read_text("utf-8"))


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise["id"])
def test_a_promise_has_a_source_words_and_a_test(promise):
    assert set(promise) == {"id", "source", "text", "test"}
    path, _, name = promise["test"].partition("::")
    assert f"\ndef {name}(" in (CHECKOUT / path).read_text("utf-8")


def test_a_promise_is_made_once():
    ids = [promise["id"] for promise in PROMISES]
    assert len(set(ids)) == len(ids)
