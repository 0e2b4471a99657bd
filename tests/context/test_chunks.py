"""Files cut along their syntax: what can be found by its name, in each language."""

from __future__ import annotations

import pytest

from shopfloor.gateways.chunks import LONGEST, chunks_of

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
        {"A": 2, "A.P": 3, "A.M": 4, "I": 6, "I.N": 6, "R": 7, "E": 8},
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
def test_what_is_defined_has_its_name_and_its_first_line(language: str):
    source, expected = SOURCES[language]
    found = {chunk.name: chunk.start_line for chunk in chunks_of(language, source.encode()) if chunk.name}
    assert found == expected


@pytest.mark.parametrize("language", SOURCES)
def test_every_line_is_in_some_chunk(language: str):
    source, _ = SOURCES[language]
    bodies = "\n".join(chunk.body for chunk in chunks_of(language, source.encode()))
    assert [line for line in source.splitlines() if len(line.strip()) > 3 and line not in bodies] == []


def test_what_is_long_is_cut_and_keeps_its_name():
    source = "def f():\n" + "    x = 1\n" * (LONGEST * 2)
    chunks = chunks_of("python", source.encode())
    assert {chunk.name for chunk in chunks} == {"f"}
    assert [(chunk.start_line, chunk.end_line) for chunk in chunks] == [(1, 150), (151, 300), (301, 301)]


def test_what_a_machine_wrote_is_one_chunk():
    (chunk,) = chunks_of("javascript", b"var a=1;" * 10_000)
    assert (chunk.start_line, chunk.end_line, len(chunk.body)) == (1, 1, 4000)


def test_what_is_no_syntax_is_cut_all_the_same():
    assert chunks_of("python", b"def broken(:\n  x\n") != []
    assert chunks_of("text", b"") == []
