from __future__ import annotations

import json

import pytest

from shopfloor.domain.text import format_json


@pytest.mark.parametrize("indent", [None, 2])
def test_json_can_be_printed_and_read_again(indent: int | None):
    value = {"mails": ["\x1b[2J\x9b31m \u202eevil\u2028", "日本語 🚀 é", "\U000e0041 \ud800"], "n": 1.5}
    text = format_json(value, indent)
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "日本語 🚀 é" in text
    assert json.loads(text) == value
