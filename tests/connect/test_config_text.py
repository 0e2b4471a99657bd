"""Editing JSON with comments, TOML and YAML as text: one member changes, and everything else stays as it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shopfloor.connect import config_files, json_text, toml_text, yaml_text
from shopfloor.errors import InvalidInput

ENTRY = {"url": "http://x/mcp", "headers": {"Authorization": "Bearer T"}}


def test_json_member_is_added_behind_the_comment_of_the_last_one():
    text = '{\n  "a": 1 // one\n}\n'
    assert json_text.set_member(text, ["b"], 2) == '{\n  "a": 1, // one\n  "b": 2\n}\n'


def test_json_on_one_line_stays_on_one_line():
    assert json_text.set_member('{"a": {}, "b": 1}\n', ["a", "c"], [1]) == '{"a": {"c": [1]}, "b": 1}\n'


def test_json_member_is_replaced_with_the_indentation_of_the_file():
    text = '{\n\t"a": {\n\t\t"b": 1\n\t}\n}'
    assert json_text.set_member(text, ["a", "b"], {"c": 2}) == '{\n\t"a": {\n\t\t"b": {\n\t\t\t"c": 2\n\t\t}\n\t}\n}'


def test_json_comma_behind_the_last_member_is_not_doubled():
    assert json_text.set_member('{\n  "a": 1,\n}', ["b"], 2) == '{\n  "a": 1,\n  "b": 2\n}'


def test_json_comment_that_looks_like_a_member_is_not_one():
    text = '{\n  // "b": 1,\n  "a": "}, // no comment"\n}'
    assert json_text.parse(json_text.set_member(text, ["b"], 2)) == {"a": "}, // no comment", "b": 2}
    assert '// "b": 1,' in json_text.set_member(text, ["b"], 2)


def test_json_first_and_middle_members_are_removed_with_their_commas():
    text = '{\n  "a": 1,\n  // two\n  "b": 2,\n  "c": 3\n}'
    assert json_text.remove_member(text, ["a"]) == '{\n  // two\n  "b": 2,\n  "c": 3\n}'
    assert json_text.remove_member(text, ["b"]) == '{\n  "a": 1,\n  // two\n  "c": 3\n}'
    assert json_text.remove_member(text, ["c"]) == '{\n  "a": 1,\n  // two\n  "b": 2\n}'


@pytest.mark.parametrize("text", ['{"a": 1', '{"a" 1}', "{a: 1}", '{"a": 1} x', '{"a": 1, "a": 2}', "[" * 9_000, "{,}"])
def test_invalid_json_is_rejected(text):
    with pytest.raises(ValueError, match=r"line \d|twice|ends early"):
        json_text.parse(text)


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=5), _values, min_size=1, max_size=4), st.sampled_from([None, 1, 2, "\t"]))
def test_adding_and_removing_a_json_member_restores_the_text(document, indent):
    text = json.dumps(document, indent=indent, ensure_ascii=False) + "\n"
    added = json_text.set_member(text, ["shopfloor"], ENTRY)
    assert json_text.parse(added) == {**document, "shopfloor": ENTRY}
    assert json_text.remove_member(added, ["shopfloor"]) == text


def test_adding_and_removing_a_json_member_leaves_an_empty_object_empty():
    added = json_text.set_member("{}\n", ["shopfloor"], ENTRY)
    assert json_text.parse(added) == {"shopfloor": ENTRY}
    assert json_text.parse(json_text.remove_member(added, ["shopfloor"])) == {}


def test_toml_table_with_subtables_is_replaced_at_its_place():
    text = '[mcp_servers.shopfloor]\nurl = "old"\n\n[mcp_servers.shopfloor.env]\nA = "1"\n\n# next\n[other]\nb = 2\n'
    assert toml_text.set_member(text, ["mcp_servers", "shopfloor"], {"url": "new"}) == (
        '[mcp_servers.shopfloor]\nurl = "new"\n\n# next\n[other]\nb = 2\n'
    )


def test_toml_key_in_quotes_is_the_same_table():
    text = '["mcp_servers"."shopfloor"]\nurl = "old"\n'
    assert toml_text.remove_member(text, ["mcp_servers", "shopfloor"]) == ""


def test_inline_table_of_toml_is_not_touched():
    with pytest.raises(InvalidInput, match="cannot be edited in place"):
        config_files.set_member("mcp_servers = { a = { url = 'x' } }\n", "toml", ["mcp_servers", "shopfloor"], ENTRY)


def test_yaml_member_is_replaced_at_its_place():
    text = "extensions:\n    shopfloor:\n        uri: old\n    other:\n        a: 1\nz: 1\n"
    assert yaml_text.set_member(text, ["extensions", "shopfloor"], {"uri": "new", "args": ["a b"]}) == (
        'extensions:\n    shopfloor:\n      uri: new\n      args:\n      - "a b"\n    other:\n        a: 1\nz: 1\n'
    )


@pytest.mark.parametrize("empty", ["extensions:\n", "extensions: {}\n", "extensions: null # none\n"])
def test_empty_yaml_mapping_gets_its_first_member(empty):
    changed = config_files.set_member(empty, "yaml", ["extensions", "shopfloor"], ENTRY)
    assert yaml_text.parse(changed) == {"extensions": {"shopfloor": ENTRY}}


def test_yaml_mapping_in_braces_is_not_touched():
    with pytest.raises(InvalidInput, match="cannot be edited in place"):
        config_files.set_member("extensions: {a: {b: 1}}\n", "yaml", ["extensions", "shopfloor"], ENTRY)


def test_yaml_words_that_mean_something_else_are_quoted():
    changed = yaml_text.set_member("", ["e", "s"], {"a": "yes", "b": "null", "c": "plain"})
    assert yaml_text.parse(changed) == {"e": {"s": {"a": "yes", "b": "null", "c": "plain"}}}


def test_windows_line_ends_are_kept():
    changed = config_files.set_member('{\r\n  "a": 1\r\n}\r\n', "json", ["b"], 2)
    assert changed == '{\r\n  "a": 1,\r\n  "b": 2\r\n}\r\n'
