"""Contents of outputs as dvc.lock says they were: from the workspace where it has those bytes, else from DVC's cache.

So a manifest of an older revision can be read while its bytes are in the cache, whatever the workspace has.
"""

import hashlib
import json
from functools import cached_property
from pathlib import Path

from pipelines.lineage.graph import with_folders
from pipelines.lineage.hashing import BLOCK
from pipelines.lineage.stages import Project
from pipelines.lineage.tracked import tracked
from rl_datasets.errors import HindcastError

FOLDER = ".dir"  # the ending of a folder's md5


class Store:
    """What DVC has of one project at one point. Only bytes that were read and have the hash that they should count as here."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._listings: dict[str, dict[str, str] | None] = {}

    def output_of(self, path: str) -> tuple[str, str] | None:
        """Returns the output that a path is or lies in, and that output's md5; None where dvc.lock and the `.dvc` files have none."""
        for place in with_folders(path):
            if place in self._outputs:
                return place, self._outputs[place]
        source = tracked(self._project.tree, path)
        return (source.path, source.md5) if source is not None and source.md5 else None

    def listing(self, output: str) -> dict[str, str] | None:
        """Returns path in the output -> md5 for every file of an output that is a folder.

        None where it is none, and where the cache has no sound listing of it.
        """
        if output not in self._listings:
            found = self.output_of(output)
            self._listings[output] = self._read_listing(found[1]) if found and found[0] == output else None
        return self._listings[output]

    def files(self, folder: str) -> list[str]:
        """Returns the paths of all files of outputs at or below a folder, as far as listings are here, sorted."""
        inside = [output for output in self._outputs if output == folder or output.startswith(f"{folder}/")]
        around = self.output_of(folder)
        found = set()
        for output in {*inside, *([around[0]] if around else [])}:
            listing = self.listing(output) if self._md5_of_output(output).endswith(FOLDER) else None
            paths = [f"{output}/{name}" for name in listing] if listing is not None else [output]
            found |= {path for path in paths if path == folder or path.startswith(f"{folder}/")}
        return sorted(path for path in found if not self._md5_of_output(path).endswith(FOLDER))

    def md5(self, path: str) -> str | None:
        """Returns the md5 that a file should have (a whole output's where the path is one); None where that is not known here."""
        found = self.output_of(path)
        if found is None or found[0] == path:
            return found[1] if found else None
        return (self.listing(found[0]) or {}).get(path.removeprefix(f"{found[0]}/"))

    def find(self, path: str) -> Path | None:
        """Returns a file with the bytes that the one at this path should have; None where there is none here. Reads it whole."""
        md5 = self.md5(path)
        if md5 is None or md5.endswith(FOLDER):
            return None
        return next((place for place in (Path(path), self.cached(md5)) if _hash(place) == md5), None)

    def read(self, path: str) -> bytes | None:
        """Returns the bytes that the file at this path should have; None where they are not here."""
        found = self.find(path)
        return None if found is None else found.read_bytes()

    def cached(self, md5: str) -> Path:
        """Returns where DVC's cache has, or would have, an object."""
        return self.cache / "files" / "md5" / md5[:2] / md5[2:]

    @cached_property
    def cache(self) -> Path:
        """The cache's folder. Raises HindcastError where DVC's settings cannot be read."""
        from dvc.config import Config
        from dvc.exceptions import DvcException

        try:
            chosen = Config(".dvc", validate=False).get("cache", {}).get("dir")
        except DvcException as error:
            raise HindcastError(f".dvc/config cannot be read: {error}. Restore it with 'git checkout .dvc/config'.") from error
        return Path(chosen) if chosen else Path(".dvc/cache")

    @cached_property
    def _outputs(self) -> dict[str, str]:
        return {path: md5 for stage in self._project.stages.values() for path, md5 in stage.locked_hashes("outs").items()}

    def _md5_of_output(self, path: str) -> str:
        found = self.output_of(path)
        return found[1] if found and found[0] == path else ""

    def _read_listing(self, md5: str) -> dict[str, str] | None:
        place = self.cached(md5)
        if not md5.endswith(FOLDER) or _hash(place) != md5.removesuffix(FOLDER):
            return None
        return {entry["relpath"]: entry["md5"] for entry in json.loads(place.read_bytes())}


def _hash(path: Path) -> str | None:
    """Returns a file's md5; None where there is none, or none that can be read."""
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                digest.update(block)
    except OSError:
        return None
    return digest.hexdigest()
