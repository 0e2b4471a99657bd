"""Split identifiers into words, and extract the terms of a query."""

from __future__ import annotations

import pytest

from shopfloor.domain.tokenizer import (
    expand_identifiers,
    extract_terms,
    find_symbol,
    list_short_forms,
    share_stem,
    split_identifier,
)


@pytest.mark.parametrize(
    ("identifier", "parts"),
    [
        ("HTTPServer_nameOf", ("http", "server", "name", "of")),
        ("snake_case", ("snake", "case")),
        ("utf8Decoder", ("utf8", "decoder")),
        ("plain", ("plain",)),
        ("__init__", ("init",)),
    ],
)
def test_identifier_is_split_into_words(identifier: str, parts: tuple[str, ...]):
    assert split_identifier(identifier) == parts


@pytest.mark.parametrize(
    ("text", "added"),
    [
        ("return plain words", ""),
        ("None and True, JSON and A", ""),
        ("self.maxWidth = getMaxWidth()", " max width get max width"),
        ("class HTTPServer(BaseServer):", " http server base server"),
        ("HTTP2Server", " http2 server"),
        ("my_HTTPServer", " my http server"),
        ("größeMaxWert", " größe max wert"),
    ],
)
def test_text_is_expanded_with_the_words_of_its_identifiers(text: str, added: str):
    assert expand_identifiers(text) == text + added


@pytest.mark.parametrize(
    ("query", "symbol"),
    [
        ("parseConfig", "parseConfig"),
        ("`parse_config()`", "parse_config"),
        ("Index.by_words", "Index.by_words"),
        ("std::vector", "std::vector"),
        ("Foo#bar", "Foo#bar"),
        ("class ConfigParser", "ConfigParser"),
        ("fn parse_config()", "parse_config"),
        ("type inference", None),
        ("how is a config parsed?", None),
        ("parse(config)", None),
        ("3d", None),
    ],
)
def test_query_that_is_only_a_symbol_is_recognized(query: str, symbol: str | None):
    assert find_symbol(query) == symbol


def test_stop_words_are_dropped_unless_there_are_no_other_words():
    assert extract_terms("How does the parserState get reset?") == ["parser", "state", "reset", "parserstate"]
    assert extract_terms("who are you") == ["who", "are", "you"]


def test_compound_identifier_is_a_term_beside_its_parts():
    assert extract_terms("set redirect_slashes") == ["set", "redirect", "slashes", "redirect_slashes"]


@pytest.mark.parametrize(
    ("word", "term", "shared"),
    [
        ("refreshing", "refresh", True),
        ("auth", "authentication", True),
        ("parsers", "parsing", True),
        ("retries", "retrying", False),
        ("as", "asset", False),
        ("a", "a", True),
        ("account", "address", False),
        ("", "token", False),
    ],
)
def test_forms_of_one_word_share_a_stem(word: str, term: str, shared: bool):
    assert (share_stem(word, term), share_stem(term, word)) == (shared, shared)


def test_long_word_has_few_short_forms():
    assert list_short_forms("authentication") == ["aut", "auth", "authe", "authen", "authent"]
    assert len(list_short_forms("x" * 500)) == 10


@pytest.mark.parametrize(("word", "forms"), [("forecast", ["fore"]), ("1234567890", []), ("cart", [])])
def test_stop_words_and_numbers_are_no_short_forms(word: str, forms: list[str]):
    assert list_short_forms(word) == forms
