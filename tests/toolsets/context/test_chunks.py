"""Files are split along their syntax, with the names of definitions, in each language."""

from __future__ import annotations

import pytest

from shopfloor.domain.chunks import Chunk
from shopfloor.search.chunker import MAX_CHUNK_LINES, chunk_file

SOURCES = {
    "python": (
        """\
import os

@deco
class A(B):
    y = 2

    @property
    def m(self):
        def inner(): pass
        return 1

async def f(a):
    pass

if True:
    def g(): pass
""",
        {"A": 3, "A.m": 7, "f": 12, "g": 16},
    ),
    "typescript": (
        """\
// about A
export class A<T> extends B {
  get m(): number { return 1 }
  handle = async () => {}
}
export const arrow = (a: number) => a;
export default function main() {}
interface I { a(): void }
type U = A | B;
enum E { X }
namespace N { export function q() {} }
abstract class Q { abstract z(): void }
""",
        {
            "A": 1,
            "A.m": 3,
            "A.handle": 4,
            "arrow": 6,
            "main": 7,
            "I": 8,
            "U": 9,
            "E": 10,
            "N": 11,
            "N.q": 11,
            "Q": 12,
            "Q.z": 12,
        },
    ),
    "tsx": (
        """\
export const App = () => <div/>;
function C() { return <p/> }
""",
        {"App": 1, "C": 2},
    ),
    "javascript": (
        """\
function a() {}
const b = function() {};
class C { d() {} }
module.exports.e = () => 1;
function* gen() {}
class F {
  h = () => 1;
}
x.y = 1;
""",
        {"a": 1, "b": 2, "C": 3, "C.d": 3, "e": 4, "gen": 5, "F": 6, "F.h": 7},
    ),
    "go": (
        """\
package x

// F does
func F() {}

type S struct { A int }

func (s *S) M() {}

type (
	T1 int
)
""",
        {"F": 3, "S": 6, "S.M": 8, "T1": 11},
    ),
    "rust": (
        """\
/// doc
pub fn f() {}
pub struct S { a: i32 }
impl<T> Tr for G<T> {
    fn t() {}
}
pub trait Tr { fn t(); }
enum E { A }
mod inner { fn z() {} }
macro_rules! mm { () => {} }
""",
        {"f": 1, "S": 3, "G": 4, "G.t": 5, "Tr": 7, "Tr.t": 7, "E": 8, "inner": 9, "inner.z": 9, "mm": 10},
    ),
    "java": (
        """\
package a;
/** Doc */
public class A {
  public A() {}
  @Override public String m() { return null; }
  enum E { X; void q() {} }
  record R(int a) {}
}
""",
        {"A": 2, "A.A": 4, "A.m": 5, "A.E": 6, "A.E.q": 6, "A.R": 7},
    ),
    "c": (
        """\
/* doc */
int f(int a) { return a; }
static char *g(void) { return 0; }
struct S { int a; };
typedef struct { int b; } T;
enum E { X };
#define MAC(x) (x)
struct S later;
""",
        {"f": 1, "g": 3, "S": 4, "T": 5, "E": 6, "MAC": 7},
    ),
    "cpp": (
        """\
namespace n { class A { public: int m() const { return 1; } }; }
int n::A::q() { return 2; }
template <typename T> T f(T a) { return a; }
class Later;
""",
        {"n": 1, "n.A": 1, "n.A.m": 1, "n.A.q": 2, "f": 3},
    ),
    "ruby": (
        """\
module M
  class A < B
    def m(x)
      1
    end
    def self.s; end
  end
end
""",
        {"M": 1, "M.A": 2, "M.A.m": 3, "M.A.s": 6},
    ),
    "php": (
        """\
<?php
namespace App;
class A { public function m() {} }
function f() {}
trait T { function z() {} }
""",
        {"A": 3, "A.m": 3, "f": 4, "T": 5, "T.z": 5},
    ),
    "csharp": (
        """\
namespace N;
public class A {
  public int P { get; set; }
  public void M() {}
}
public interface I { void N(); }
public record R(int X);
enum E { A }
""",
        {"A": 2, "A.M": 4, "I": 6, "I.N": 6, "R": 7, "E": 8},
    ),
    "kotlin": (
        """\
package a
/** Doc */
class A(val x: Int) : B() {
  companion object {
    const val K = 1
    fun make() = A(1)
  }
  val y = 3
  override fun go(a: Int): String {
    return ""
  }
}
object O {
  fun f() {}
}
interface I {
  fun g()
}
typealias T = Int
fun String.ext(): Int = 3
enum class E { A, B }
data class D(val z: Int)
""",
        {
            "A": 2,
            "A.Companion": 4,
            "A.Companion.make": 6,
            "A.go": 9,
            "O": 13,
            "O.f": 14,
            "I": 16,
            "I.g": 17,
            "T": 19,
            "ext": 20,
            "E": 21,
            "D": 22,
        },
    ),
    "scala": (
        """\
package a
/** Doc */
class A(x: Int) extends B {
  def go(a: Int): String = ""
}
object O { def f() = 1 }
trait I { def g(): Int }
case class D(a: Int)
enum Color { case Red }
def top(a: Int) = a
""",
        {"A": 2, "A.go": 4, "O": 6, "O.f": 6, "I": 7, "I.g": 7, "D": 8, "Color": 9, "top": 10},
    ),
    "swift": (
        """\
import A
/// Doc
public class A: B {
  let x = 1
  init(a: Int) {}
  func go(_ a: Int) -> String { "" }
}
extension S { func h() {} }
protocol P { func g() }
enum E { case a }
func top() {}
""",
        {"A": 2, "A.init": 5, "A.go": 6, "S": 8, "S.h": 8, "P": 9, "P.g": 9, "E": 10, "top": 11},
    ),
    "elixir": (
        """\
defmodule A.B do
  @moduledoc "x"

  @doc "y"
  @spec go(integer) :: atom
  def go(a) when a > 1, do: 1
  def go(_), do: 2

  defp priv(a) do
    a
  end
end
defimpl P, for: A do
  def f(x), do: x
end
""",
        {"A.B": 1, "A.B.go": 4, "A.B.priv": 9, "P": 13, "P.f": 14},
    ),
    "haskell": (
        """\
module A.B where

import X

-- | Doc
go :: Int -> Int
go 0 = 1
go x = x

data D = D1 | D2
newtype N = N Int
type T = Int
class C a where
  m :: a -> Int
instance Show D where
  show _ = ""
""",
        {"go": 6, "D": 10, "N": 11, "T": 12, "C": 13, "C.m": 14, "Show": 15, "Show.show": 16},
    ),
    "lua": (
        """\
local M = {}
-- doc
function M.go(a) return 1 end
local function priv() end
M.f = function(x) end
local g = function() end
function M:meth() end
return M
""",
        {"M.go": 2, "priv": 4, "M.f": 5, "g": 6, "M.meth": 7},
    ),
    "shell": (
        """\
X=1

# doc
go() {
  echo
}
function f { echo 1; }
""",
        {"go": 3, "f": 7},
    ),
    "zig": (
        """\
const std = @import("std");
/// doc
pub fn go(a: i32) i32 { return a; }
pub const S = struct {
    x: i32,
    pub fn m(self: S) void {}
};
const E = enum { a };
""",
        {"go": 2, "S": 4, "S.m": 6, "E": 8},
    ),
    "perl": (
        """\
package A::B;
use strict;

# doc
sub go { my $x = shift; return 1 }
sub stop {
  return 0;
}
""",
        {"A.B": 1, "go": 4, "stop": 6},
    ),
    "sql": (
        """\
-- Users
CREATE TABLE IF NOT EXISTS users (
  id INTEGER
);
create view active as select 1;
""",
        {"users": 1, "active": 5},
    ),
    "markdown": (
        """\
# One

text

## Two

```
# not a heading
```

# Three
""",
        {"One": 1, "One > Two": 5, "Three": 11},
    ),
}


@pytest.mark.parametrize("language", SOURCES)
def test_definitions_have_their_name_and_first_line(language: str):
    source, expected = SOURCES[language]
    found = {chunk.name: chunk.start_line for chunk in chunk_file(language, source.encode()) if chunk.name}
    assert found == expected


@pytest.mark.parametrize("language", SOURCES)
def test_every_line_is_in_a_chunk(language: str):
    source, _ = SOURCES[language]
    bodies = "\n".join(chunk.body for chunk in chunk_file(language, source.encode()))
    assert [line for line in source.splitlines() if len(line.strip()) > 3 and line not in bodies] == []


def test_long_definition_is_split_and_keeps_its_name():
    source = "def f():\n" + "    x = 1\n" * (MAX_CHUNK_LINES * 2)
    chunks = chunk_file("python", source.encode())
    assert {chunk.name for chunk in chunks} == {"f"}
    assert [(chunk.start_line, chunk.end_line) for chunk in chunks] == [(1, 150), (151, 300), (301, 301)]


def test_generated_file_is_one_chunk():
    (chunk,) = chunk_file("javascript", b"var a=1;" * 10_000)
    assert (chunk.start_line, chunk.end_line, len(chunk.body)) == (1, 1, 4000)


def test_file_with_syntax_errors_is_still_split():
    assert chunk_file("python", b"def broken(:\n  x\n") != []
    assert chunk_file("text", b"") == [Chunk("", "text", 1, 1, "", "")]


def test_script_without_suffix_is_chunked_by_its_interpreter():
    chunks = chunk_file("text", b"#!/usr/bin/env bash\n\ngreet() {\n  echo hello\n}\n")
    assert [chunk.name for chunk in chunks if chunk.name] == ["greet"]


def test_class_shows_the_signatures_of_its_members():
    source = b"class Session:\n    def open(self, url: str) -> None:\n        pass\n\n    def close(self) -> None:\n        pass\n"
    head = next(chunk for chunk in chunk_file("python", source) if chunk.name == "Session")
    assert "def open(self, url: str) -> None:" in head.body
    assert "def close(self) -> None:" in head.body


def test_overloads_are_one_chunk_with_their_implementation():
    source = b"""\
from typing import overload

@overload
def load(key: int) -> int: ...
@overload
def load(key: str) -> str: ...
def load(key):
    return key
"""
    loads = [chunk for chunk in chunk_file("python", source) if chunk.name == "load"]
    assert [(chunk.start_line, chunk.end_line) for chunk in loads] == [(3, 8)]


@pytest.mark.parametrize(
    ("language", "source", "expected"),
    [
        ("python", "RETRIES = 3\nlimit: int = 4\n", {"RETRIES", "limit"}),
        ("c", "#define MAX_ROWS 3\nstatic const char *names[] = {0};\n", {"MAX_ROWS", "names"}),
        ("typescript", "export const answer = 42;\n", {"answer"}),
        ("csharp", "class A {\n  public int Port { get; set; }\n}\n", {"Port"}),
        ("java", "class A {\n  private int retries;\n  import x;\n}\n", {"retries"}),
        ("kotlin", "class A {\n  val timeout = 3\n}\n", {"timeout"}),
    ],
)
def test_constants_fields_and_settings_are_symbols(language: str, source: str, expected: set[str]):
    assert {name for chunk in chunk_file(language, source.encode()) for name in chunk.symbols} == expected
