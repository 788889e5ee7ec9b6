"""Which record tells of a run that dvc.lock had at some time. Records that were removed since are read from git."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from pipelines import paths
from pipelines.lineage.records import Launcher, Record, parse_record, read_records
from pipelines.lineage.revisions import contents
from pipelines.lineage.stages import Stage
from pipelines.lineage.store import FOLDER, Store
from pipelines.lineage.tree import WorkingTree, git_or_none
from rl_datasets.errors import HindcastError

_SHOWN = ("processor", "cores", "accelerators", "platform", "python")


@dataclass(frozen=True)
class Execution:
    """What a record says of a run: where it lies, when the run began, who started it, how it ended, and on which machine."""

    path: str
    started: str  # ISO 8601
    launcher: str
    outcome: str
    machine: Mapping[str, object]

    def __str__(self) -> str:
        machine = ", ".join(f"{name} {_words(self.machine[name])}" for name in _SHOWN if self.machine.get(name))
        return f"{self.outcome} {self.started[:16]}, {self.launcher}, on {machine or 'a machine that it does not name'}: {self.path}"


class PastRecords:
    """The records of stages, those on disk and all that any commit had; each stage is read once."""

    def __init__(self) -> None:
        self._known: dict[str, list[Record]] = {}

    def of(self, stage: str) -> list[Record]:
        """Returns the whole ones."""
        if stage not in self._known:
            here = {record.path: record for record in read_records(WorkingTree(), stage) if isinstance(record, Record)}
            self._known[stage] = [*here.values(), *(record for record in _committed(stage) if record.path not in here)]
        return self._known[stage]


def execution_of(stage: Stage, store: Store, records: Sequence[Record], until: str = "") -> Execution | None:
    """Returns what the record says of the run that a stage's entry in dvc.lock describes; None where no record fits.

    It completed with the same parameters, code and inputs, wrote the same files where their hashes are known here, and, where one
    did, had ended at `until` (ISO 8601). Of several the newest, one that DVC started before one by hand.
    """
    fitting = [record for record in records if record.outcome == "COMPLETE" and _was_given(record, stage) and _wrote(record, store)]
    early = [record for record in fitting if until and _seconds(record.ended) <= _seconds(until)]
    found = max(early or fitting, key=lambda record: (record.launcher != Launcher.HAND, record.ended), default=None)
    return None if found is None else Execution(found.path, found.started, found.launcher, found.outcome, found.machine)


def _was_given(record: Record, stage: Stage) -> bool:
    """Of a folder a record may name its manifest's hash instead, which says nothing here."""
    read = stage.locked_hashes("deps")
    given = [*record.code.items(), *((entry.path, entry.md5) for entry in record.inputs if entry.md5)]
    return dict(record.parameters) == stage.locked_parameters() and all(
        read.get(path, md5) == md5 or read[path].endswith(FOLDER) != md5.endswith(FOLDER) for path, md5 in given
    )


def _wrote(record: Record, store: Store) -> bool:
    """Whether no file that a record names has another hash in dvc.lock; one whose hash is not known here is taken to be the same."""
    files = ((f"{output.path}/{name}", md5) for output in record.outputs for name, md5 in output.files.items())
    return all(store.md5(path) in (None, md5) for path, md5 in files)


def _committed(stage: str) -> Iterator[Record]:
    """The records that any commit added, by one process of git."""
    folder = (paths.RECORDS / stage).as_posix()
    log = ("log", "--all", "--raw", "--no-abbrev", "--no-renames", "--relative", "--diff-filter=A", "--format=", "-z", "--", folder)
    fields = (git_or_none("--literal-pathspecs", *log) or b"").decode("utf-8", "surrogateescape").split("\0")
    added = {path: about.split()[3] for about, path in zip(fields[::2], fields[1::2], strict=False) if path.endswith(".json")}
    read = dict(contents(sorted(set(added.values()))))
    for path, blob in added.items():
        with suppress(HindcastError):  # one of another version tells nothing
            yield parse_record(path, read[blob])


def _seconds(moment: str) -> datetime:
    return datetime.fromisoformat(moment).replace(microsecond=0)


def _words(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
