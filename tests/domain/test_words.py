"""Words: how identifiers come apart, and what of a question is looked for."""

from __future__ import annotations

import pytest

from shopfloor.domain.words import parts_of, spread, symbol_in, terms_of


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
def test_an_identifier_comes_apart_at_its_seams(identifier: str, parts: tuple[str, ...]):
    assert parts_of(identifier) == parts


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
def test_a_text_is_followed_by_the_parts_of_its_compounds(text: str, added: str):
    assert spread(text) == text + added


@pytest.mark.parametrize(
    ("query", "symbol"),
    [
        ("parseConfig", "parseConfig"),
        ("`parse_config()`", "parse_config"),
        ("Index.by_words", "Index.by_words"),
        ("std::vector", "std::vector"),
        ("Foo#bar", "Foo#bar"),
        ("how is a config parsed?", None),
        ("parse(config)", None),
        ("3d", None),
    ],
)
def test_a_query_that_is_a_symbol_and_nothing_else(query: str, symbol: str | None):
    assert symbol_in(query) == symbol


def test_stop_words_are_left_out_unless_there_is_nothing_else():
    assert terms_of("How does the parserState get reset?") == ["parser", "state", "reset", "parserstate"]
    assert terms_of("who are you") == ["who", "are", "you"]
