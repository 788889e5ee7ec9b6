"""Files of a source: which they are, what they are by their content, and the digest of that."""

import hashlib
import pickletools
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from rl_datasets.errors import HindcastError

_SIGNATURES = (
    (b"\x89HDF\r\n\x1a\n", "hdf5"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"\x93NUMPY", "npy"),
    (b"PAR1", "parquet"),
    (b"ARROW1", "arrow"),
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"version https://git-lfs", "git-lfs"),
)
_HEAD = 4096
_PROTOCOLS = tuple(bytes([0x80, protocol]) for protocol in (2, 3, 4, 5))
_OLD_OPCODES = tuple(bytes([code]) for code in b"(c]}IFVS")  # with which a pickle of protocol 0 or 1 may begin
_PICKLE_ADVICE = (
    "Reading a pickle runs code that it contains, so it is never read. Load it where you trust it, and save its arrays with "
    "numpy.savez or h5py (plain arrays, no objects)"
)
_PROSE = {
    "empty": "is empty (0 bytes); copy or download it again",
    "html": "is a web page (HTML), or an answer in XML, as a failed download leaves it; download the file itself",
    "git-lfs": "is a Git LFS pointer and not the file; run 'git lfs pull' where it is from",
    "pickle": f"is a pickle. {_PICKLE_ADVICE}",
}


def kind_of(path: Path) -> str:
    """Returns what a file is by its content: hdf5, zip, npy, parquet, arrow, gzip, bzip2, zstd, pickle, html, git-lfs, empty, or other."""
    with path.open("rb") as file:
        kind = kind_of_content(file)
    return "pickle" if kind == "zip" and _holds_pickle(path) else kind


def kind_of_content(file: IO[bytes]) -> str:
    """Returns what the content of a file is, which is left at its beginning."""
    head = file.read(_HEAD)
    file.seek(0)
    if not head:
        return "empty"
    for signature, kind in _SIGNATURES:
        if head.startswith(signature):
            return kind
    if head.lstrip()[:14].lower().startswith((b"<!doctype html", b"<html", b"<?xml")):
        return "html"
    if not _may_be_pickle(head):
        return "other"
    kind = "pickle" if _is_pickle(file) else "other"
    file.seek(0)
    return kind


def require_kind(path: Path, *kinds: str) -> str:
    """Returns the kind of a file. Raises HindcastError, saying what it is and what to do, where it is none of these."""
    try:
        kind = kind_of(path)
    except OSError as error:
        raise HindcastError(f"{path} cannot be read: {error.strerror or error}. Mend the path or its permissions.") from error
    refuse_kind(path, kind)
    if kind not in kinds:
        found = "is no" if kind == "other" else f"is a file of kind {kind} and no"
        raise HindcastError(f"{path} {found} {' or '.join(kinds)} file. Mend the path, or use the builder for what it is.")
    return kind


def refuse_kind(path: Path, kind: str) -> None:
    """Raises HindcastError where no builder reads files of this kind."""
    if kind in _PROSE:
        raise HindcastError(f"{path} {_PROSE[kind]}.")


def source_files(path: Path, suffixes: Sequence[str], pattern: str | None = None) -> list[Path]:
    """Returns the file, or those in the folder of these suffixes or this pattern, sorted. Raises HindcastError where there is none."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise HindcastError(f"{path} does not exist. Mend the entry's source, or its option 'path'.")
    found = path.rglob(pattern) if pattern else (file for suffix in suffixes for file in path.rglob(f"*{suffix}"))
    files = sorted({file for file in found if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts)})
    if not files:
        wanted = pattern or " or ".join("*" + suffix for suffix in suffixes)
        raise HindcastError(f"{path} holds no file of the pattern {wanted}. Mend 'path' or 'files'.")
    return files


def labels_of(files: Sequence[Path], root: Path, suffixes: Sequence[str]) -> list[str]:
    """Returns what tells files apart: their path in the folder, without the suffix; "" for a lone one."""
    if len(files) == 1:
        return [""]
    names = [file.relative_to(root).as_posix() for file in files]
    return [next((name.removesuffix(s) for s in sorted(suffixes, key=len, reverse=True) if name.endswith(s)), name) for name in names]


def file_digest(path: Path) -> str:
    """SHA-256 of the content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _holds_pickle(path: Path) -> bool:
    """Whether a zip is what torch.save writes."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("data.pkl") for name in archive.namelist())
    except zipfile.BadZipFile:
        return False


def _may_be_pickle(head: bytes) -> bool:
    return head[:2] in _PROTOCOLS or head[:1] in _OLD_OPCODES


def _is_pickle(file: IO[bytes]) -> bool:
    """Looks at the opcodes and runs none. Protocol 2 and later say what they are; an earlier one is a pickle if it is one to its end."""
    if file.read(1) == b"\x80":
        return True
    file.seek(0)
    try:
        last, count = None, 0
        for opcode, _, _ in pickletools.genops(file):
            last, count = opcode.name, count + 1
        return last == "STOP" and count > 1 and not file.read(1)
    except Exception:  # whatever a text makes the disassembler raise
        return False
