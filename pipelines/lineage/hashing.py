"""The hash of a path as DVC computes it, from the bytes on disk, with as many threads as there are cores."""

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

from pathspec import GitIgnoreSpec

Item = TypeVar("Item")
Result = TypeVar("Result")

BLOCK = 1 << 20  # bytes read at once
LARGEST_BLOCK = 16 << 20  # where other threads work: each block waits for the interpreter, some milliseconds
IGNORE_FILE = ".dvcignore"
_ALWAYS_IGNORED = (".hg/", ".git/", ".git", ".dvc/")  # as DVC has it


class Digests(NamedTuple):
    """Of one file. `sha256` is "" where it was not asked for."""

    md5: str
    sha256: str


def digests_of(path: Path, with_sha256: bool = False) -> Digests:
    """Returns a file's digests from one reading of all its bytes. Raises OSError where it cannot be read, or is a pipe or device."""
    if not path.is_file():
        raise OSError(errno.EINVAL, "no file with bytes", path)
    md5, sha256 = hashlib.md5(usedforsecurity=False), hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        block = memoryview(bytearray(min(os.fstat(file.fileno()).st_size, LARGEST_BLOCK) or 1))
        while size := file.readinto(block):
            md5.update(block[:size])
            if with_sha256:
                sha256.update(block[:size])
    return Digests(md5.hexdigest(), sha256.hexdigest() if with_sha256 else "")


def same_bytes(one: Path, other: Path) -> bool:
    """Whether two files have the same bytes; not where one cannot be read, or changes meanwhile."""
    try:
        with one.open("rb", buffering=0) as first, other.open("rb", buffering=0) as second:
            left = os.fstat(first.fileno()).st_size
            if left != os.fstat(second.fileno()).st_size:
                return False
            blocks = [bytearray(min(left, BLOCK)) for _ in range(2)]
            while left:
                if left < len(blocks[0]):
                    del blocks[0][left:], blocks[1][left:]
                sizes = [file.readinto(block) for file, block in zip((first, second), blocks, strict=True)]
                if sizes != [len(blocks[0])] * 2 or blocks[0] != blocks[1]:
                    return False
                left -= len(blocks[0])
            return True
    except OSError:
        return False


def digests_of_all(
    files: Iterable[tuple[Path, bool]], advance: Callable[[], None] = lambda: None, *, spare: int = 0
) -> Iterator[Digests | None]:
    """Yields the digests of each (path, whether its SHA-256 is wanted), in order; None for one that cannot be read."""
    for digests in with_all_cores(lambda asked: digests_of(*asked), files, spare=spare):
        advance()
        yield digests


def with_all_cores(read: Callable[[Item], Result], items: Iterable[Item], *, spare: int) -> Iterator[Result | None]:
    """Yields what reading each item gives, in order; None for one that cannot be read.

    `spare` cores are left to what else this process does meanwhile, as far as there are others.
    """

    def read_or_none(item: Item) -> Result | None:
        try:
            return read(item)
        except OSError:
            return None

    with ThreadPoolExecutor(max((os.cpu_count() or 1) - spare, 1)) as pool:  # reading and hashing let go of the interpreter
        yield from pool.map(read_or_none, items)


def folder_md5(listing: Mapping[str, str]) -> str:
    """Returns DVC's md5 of a folder, from the md5 of each file by its path in it."""
    entries = [{"md5": listing[name], "relpath": name} for name in sorted(listing)]
    return hashlib.md5(json.dumps(entries, sort_keys=True).encode(), usedforsecurity=False).hexdigest() + ".dir"


class Ignored:
    """What DVC leaves out of a folder: the patterns of .dvcignore in the project's root and in the folders below it."""

    def __init__(self) -> None:
        self._specs: dict[str, GitIgnoreSpec | None] = {}

    def files(self, folder: str) -> list[str]:
        """Returns the paths of all files at or below a folder that DVC counts, sorted; a file's own where it is one."""
        if os.path.isfile(folder):
            return [folder]
        found, waiting = [], [folder]
        while waiting:
            place = waiting.pop()
            try:
                entries = list(os.scandir(place))
            except (OSError, ValueError):  # a name that none can have
                continue
            for entry in entries:
                path = f"{place}/{entry.name}"
                if _is_folder(entry):
                    if not self._leaves_out(f"{path}/"):
                        waiting.append(path)
                elif os.path.exists(path) and not self._leaves_out(path):
                    found.append(path)
        return sorted(found)

    def _leaves_out(self, path: str) -> bool:
        end = path.rstrip("/").rfind("/")
        while True:
            base = path[: end + 1]
            spec = self._spec(base)
            if spec is not None and spec.match_file(path[len(base) :]):
                return True
            if end < 0:
                return False
            end = path.rfind("/", 0, end)

    def _spec(self, base: str) -> GitIgnoreSpec | None:
        """The patterns that a folder ("" or one with "/" behind) has for what is below it."""
        if base not in self._specs:
            try:
                place = Path(base, IGNORE_FILE)
                lines = place.read_text(encoding="utf-8").splitlines() if place.is_file() else []  # a pipe would never end
            except (OSError, UnicodeDecodeError):
                lines = []
            lines += _ALWAYS_IGNORED if base == "" else ()
            self._specs[base] = GitIgnoreSpec.from_lines(lines) if lines else None
        return self._specs[base]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether there is something to look into: a link that leads back to a folder around it has nothing new."""
    try:
        if not entry.is_dir():
            return False
    except OSError:
        return False
    return not (entry.is_symlink() and any(os.path.samefile(entry.path, folder) for folder in Path(entry.path).parents))


class Hasher:
    """Computes the hashes of paths as DVC does, each once."""

    def __init__(self) -> None:
        self._ignored = Ignored()
        self._known: dict[str, str | None] = {}

    def __call__(self, path: str) -> str | None:
        """Returns DVC's md5 of a file, or of a folder (with ".dir" behind); None where nothing is there. Reads every byte."""
        if path not in self._known:
            self._known[path] = self._hash(path)
        return self._known[path]

    def _hash(self, path: str) -> str | None:
        if not os.path.isdir(path):
            return digests_of(Path(path)).md5 if os.path.isfile(path) else None
        return folder_md5({file[len(path) + 1 :]: digests_of(Path(file)).md5 for file in self._ignored.files(path)})
