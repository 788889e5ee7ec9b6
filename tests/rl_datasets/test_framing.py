"""TFRecord files as TensorFlow writes and reads them, and what is damaged in them as it finds it."""

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl_datasets.rlds import framing
from rl_datasets.rlds.framing import DamagedFile, checksums, read_records, write_records

RECORDS = [bytes(range(256)) * 9, b"", b"a", b"abcd", b"12345678", b"x" * 70, b"", bytes(4096), b"z" * 33]


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is left to TensorFlow, which other tests may have imported."""
    monkeypatch.setattr(framing, "_is_for_tensorflow", lambda _: False)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),  # the check value of the catalogue of CRCs
        (bytes(32), 0x8A9136AA),  # and the examples of RFC 3720, B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_the_checksum_is_crc_32c(content: bytes, expected: int) -> None:
    assert checksums([content]) == expected


@given(st.lists(st.binary(max_size=90), max_size=12))
def test_checksums_of_many_are_those_of_each(parts: list[bytes]) -> None:
    assert checksums(parts).tolist() == [bit_by_bit(part) for part in parts]


def bit_by_bit(content: bytes) -> int:
    register = 0xFFFFFFFF
    for byte in content:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


def test_long_contents_are_cut_into_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [bytes([number]) * 200 for number in range(30)]
    whole = checksums(parts).tolist()
    monkeypatch.setattr(framing, "_BLOCK", 1 << 10)
    assert checksums(parts).tolist() == whole


@pytest.mark.usefixtures("own")
def test_files_are_those_of_tensorflow(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for records in (RECORDS, []):
        write_records(ours, records)
        framing._write_much(theirs, records)
        assert ours.read_bytes() == theirs.read_bytes()
        assert outcome(read_records, ours) == outcome(framing._read_much, ours) == (records, None)


@pytest.mark.usefixtures("own")
def test_damage_is_found_where_tensorflow_finds_it(tmp_path: Path) -> None:
    file, rng = tmp_path / "records", random.Random(0)
    write_records(file, RECORDS)
    content = file.read_bytes()
    flipped = [(place, 1 << rng.randrange(8)) for place in {*range(60), *rng.sample(range(len(content)), 150)}]
    damages = [content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :] for place, bit in flipped]
    damages += [content[:length] for length in {*range(40), *range(len(content) - 120, len(content))}]
    damages += [content + b"\0", content + content[:100], b"<!DOCTYPE html><title>404</title>"]
    for damaged in damages:
        file.write_bytes(damaged)
        (found, fault), (expected, its_fault) = outcome(read_records, file), outcome(framing._read_much, file)
        assert found == expected
        assert fault is its_fault is None or str(its_fault).startswith(str(fault))


def test_much_is_left_to_tensorflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    write, read = framing._write_much, framing._read_much
    monkeypatch.setattr(framing, "_write_much", lambda file, records: used.append("write") or write(file, records))
    monkeypatch.setattr(framing, "_read_much", lambda file: used.append("read") or read(file))
    monkeypatch.setattr(framing, "MUCH", 1 << 10)
    write_records(tmp_path / "records", RECORDS)
    assert list(read_records(tmp_path / "records")) == RECORDS
    assert used == ["write", "read"]


def test_all_is_left_to_tensorflow_once_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    assert [framing._is_for_tensorflow(size) for size in (1, framing.MUCH + 1)] == [False, True]
    monkeypatch.setitem(sys.modules, "tensorflow", ModuleType("tensorflow"))
    assert framing._is_for_tensorflow(1)


@pytest.mark.usefixtures("own")
def test_a_file_that_is_missing_is_damaged(tmp_path: Path) -> None:
    assert outcome(read_records, tmp_path / "none") == ([], "No such file or directory")


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("write", [write_records, framing._write_much])
def test_a_disk_that_fails_is_the_systems_error(tmp_path: Path, write: Callable[[Path, list[bytes]], None]) -> None:
    with pytest.raises(OSError, match="No such file"):
        write(tmp_path / "none" / "file", RECORDS)


def outcome(read: Callable[[Path], Iterator[bytes]], file: Path) -> tuple[list[bytes], str | None]:
    """The records before the damage, and what is said of it."""
    found = []
    try:
        found.extend(record for record in read(file))
    except DamagedFile as error:
        return found, str(error)
    return found, None
