"""The bytes of a text as whole rows in UTF-8, some megabytes at a time: without its compression, encoding, comments and preamble."""

import bz2
import codecs
import gzip
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pyarrow as pa

from rl_datasets.importing.dialect import Dialect
from rl_datasets.importing.source import kind_of

_WIDEST = 4  # bytes of a character
_MOST_AT_ONCE = 8  # blocks that a quoted field may go on for, before its quote is taken to be an ordinary character


def opened(path: Path) -> IO[bytes]:
    """The bytes of a file, without its compression."""
    kind = kind_of(path)
    if kind == "gzip":
        return gzip.open(path, "rb")  # type: ignore[return-value]
    if kind == "bzip2":
        return bz2.open(path, "rb")
    if kind == "zstd":
        return io.BytesIO(pa.CompressedInputStream(pa.OSFile(str(path), "rb"), "zstd").read())  # its stream cannot go back
    return path.open("rb")


def head_of(source: IO[bytes], most: int | None) -> tuple[IO[bytes], bool]:
    """Returns a stream that ends after so many bytes, and whether it is cut there."""
    if most is None:
        return source, False
    head = source.read(most - most % _WIDEST)
    return io.BytesIO(head), bool(source.read(1))


def row_blocks(source: IO[bytes], read: Dialect, size: int, is_cut: bool = False) -> Iterator[bytes]:
    """Yields whole rows, header first, of about `size` bytes at a time; of a text that is cut, none that may not be whole.

    Raises UnicodeDecodeError where bytes are not of the declared encoding.
    """
    lines = _without_comments(_lines(source, read.encoding, size, is_cut), read)
    yield from _whole_rows(lines, read.quotechar.encode(), is_cut)


def _lines(source: IO[bytes], encoding: str, size: int, is_cut: bool) -> Iterator[bytes]:
    """Yields whole lines in UTF-8, some at a time."""
    blocks = _by_bytes if "\n".encode(encoding) == b"\n" else _by_characters
    for number, block in enumerate(blocks(source, encoding, size)):
        lines = block[: block.rfind(b"\n") + 1] if is_cut and not block.endswith(b"\n") else block
        yield lines if number else lines.removeprefix(codecs.BOM_UTF8)


def _by_bytes(source: IO[bytes], encoding: str, size: int) -> Iterator[bytes]:
    is_utf_8 = codecs.lookup(encoding).name == "utf-8"
    decoder = codecs.getincrementaldecoder(encoding)()
    while block := source.read(size):
        block += source.readline()
        text = decoder.decode(block)  # also of UTF-8, so that what is none is told
        yield block if is_utf_8 else text.encode()


def _by_characters(source: IO[bytes], encoding: str, size: int) -> Iterator[bytes]:
    """For encodings in which a line end is more than its byte."""
    reader = io.TextIOWrapper(source, encoding, newline="")
    try:
        while text := reader.read(size):
            yield (text + reader.readline()).encode()
    finally:
        reader.detach()  # or it would close the source


def _without_comments(blocks: Iterator[bytes], read: Dialect) -> Iterator[bytes]:
    skip, mark = read.skiprows, (read.comment or "").encode()
    comments = re.compile(rb"^" + re.escape(mark) + rb"[^\n]*\n?", re.MULTILINE)
    for block in blocks:
        while skip and block:
            block = block.partition(b"\n")[2]
            skip -= 1
        if mark and (block.startswith(mark) or b"\n" + mark in block):
            block = comments.sub(b"", block)
        if block:
            yield block


def _whole_rows(blocks: Iterator[bytes], quote: bytes, is_cut: bool) -> Iterator[bytes]:
    """Yields blocks of whole lines that do not end within quotes, where a line break is a part of the text."""
    rest, held = b"", 0
    for block in blocks:
        text, held = rest + block, held + 1
        end = len(text) if held > _MOST_AT_ONCE else _end_of_rows(text, quote)
        rest, held = text[end:], held if end == 0 else 0
        if end:
            yield text[:end]
    if rest and not is_cut:
        yield rest


def _end_of_rows(text: bytes, quote: bytes) -> int:
    """Returns where the last line ends that has an even number of quotes up to it."""
    end, count = len(text), text.count(quote) if quote in text else 0
    while count % 2 and end:
        start = text.rfind(b"\n", 0, end - 1) + 1
        count -= text.count(quote, start, end)
        end = start
    return end
