"""Croissant 1.0 metadata of an RLDS directory, by which others find the data and know what is in them (mlcommons.org/croissant/1.0).

The record set `episodes` has the fields of a TFRecord example: an episode's own, and under `steps` those of each of its steps.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rl_datasets.about import About
from rl_datasets.manifest import SHARD
from rl_datasets.rlds import DESCRIPTION, STEP_METADATA, RldsReader
from rl_datasets.schema import ArraySpec, EnvSpec, named_leaves
from rl_datasets.words import count

FILE_NAME, SHARDS = "croissant.json", "shards"
TFRECORD = "https://www.tensorflow.org/tutorials/load_data/tfrecord"  # it has no registered media type
CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
_CHUNK = 1 << 20


def croissant(reader: RldsReader, name: str, about: About, counts: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Returns JSON-LD. `place` is the path or address of the data's folder, as seen from where the JSON will lie.

    `counts` is of "episodes" and "transitions". Reads every file once, for its checksum; one that is missing or unreadable is left out.
    """
    version, spec = reader.path.name, reader.spec
    known = {
        "license": about.license,
        "url": about.url,
        "datePublished": about.date_published,
        "citeAs": about.citation,
        "creator": [{"@type": "Organization", "name": creator} for creator in about.creators],
    }
    described = (
        f"{count(counts['episodes'], 'episode')} of {spec.env_id}, {count(counts['transitions'], 'transition')}, in the RLDS format."
    )
    return {
        "@context": CONTEXT,
        "@type": "Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": name,
        "description": f"{about.description} {described}".strip(),
        "version": version,
        "keywords": ["reinforcement learning", "offline reinforcement learning", "RLDS", spec.env_id],
        **{key: value for key, value in known.items() if value},
        "distribution": _distribution(reader, place),
        "recordSet": [_splits(reader.splits), _episodes(reader, spec)],
    }


def _distribution(reader: RldsReader, place: str) -> list[dict[str, Any]]:
    shards = [shard.path for split in reader.splits for shard in reader.described_shards(split)]
    objects = []
    for path in (*(reader.path / file for file in DESCRIPTION), *shards):
        digest = _sha256(path)
        if digest:
            objects.append(
                {
                    "@type": "cr:FileObject",
                    "@id": path.name,
                    "name": path.name,
                    "contentUrl": f"{place}/{path.name}",
                    "contentSize": f"{path.stat().st_size} B",
                    "encodingFormat": TFRECORD if SHARD in path.name else "application/json",
                    "sha256": digest,
                }
            )
    shards_set = {
        "@type": "cr:FileSet",
        "@id": SHARDS,
        "name": SHARDS,
        "description": "The files of all splits; a file's name tells its split.",
        "encodingFormat": TFRECORD,
        "includes": [f"{place}/*-{split}{SHARD}*" for split in reader.splits],
    }
    return [*objects, shards_set]


def _splits(splits: Sequence[str]) -> dict[str, Any]:
    field = {"@type": "cr:Field", "@id": "splits/name", "name": "name", "description": "The name of a split.", "dataType": "sc:Text"}
    return {
        "@type": "cr:RecordSet",
        "@id": "splits",
        "name": "splits",
        "description": "The splits of the data set.",
        "dataType": "cr:Split",
        "key": {"@id": "splits/name"},
        "field": [field],
        "data": [{"splits/name": split} for split in splits],
    }


def _episodes(reader: RldsReader, spec: EnvSpec) -> dict[str, Any]:
    leaves = named_leaves(spec.observation, "observation") + ([("action", spec.action)] if reader.action_keys == ("action",) else [])
    stored = [key for key in ("reward", "discount", "is_first", "is_last", "is_terminal") if key in reader.step_keys]
    steps = [_array_field(name, leaf) for name, leaf in leaves]
    parts = reader.action_keys if reader.action_keys != ("action",) else ()
    steps += [_field(f"episodes/steps/{key}", key, f"steps/{key}", "A part of the action.", "sc:Float", repeated=True) for key in parts]
    steps += [_field(f"episodes/steps/{key}", key, f"steps/{key}", _STEP_WORDS[key], _STEP_TYPES[key]) for key in stored]
    steps += [_array_field(f"{STEP_METADATA}/{name}", leaf) for name, leaf in spec.step_metadata.items()]
    kinds = {str: "sc:Text", int: "sc:Integer", float: "sc:Float"}
    columns = [_field(f"episodes/{key}", key, key, f"Of an episode: {key}.", kinds[kind]) for key, kind in reader.columns.items()]
    everything = {
        "@type": "cr:Field",
        "@id": "episodes/steps",
        "name": "steps",
        "description": "T transitions as T+1 steps: a step holds an observation, the action taken at it, and the reward and discount that "
        "followed; the last holds only the last observation.",
        "repeated": True,
        "subField": steps,
    }
    return {
        "@type": "cr:RecordSet",
        "@id": "episodes",
        "name": "episodes",
        "description": "One record an episode, in the order of the files.",
        "field": [*columns, everything],
    }


def _array_field(name: str, leaf: ArraySpec) -> dict[str, Any]:
    shape = " x ".join(map(str, leaf.shape)) or "one value"
    values = f", one of {count(leaf.num_values, 'value')}" if leaf.num_values is not None else ""
    kind = "sc:ImageObject" if leaf.is_image else _type_of(leaf.numpy_dtype)
    return _field(f"episodes/steps/{name}", name, f"steps/{name}", f"{leaf.dtype}, {shape}{values}.", kind, repeated=bool(leaf.shape))


def _field(identity: str, name: str, column: str, words: str, kind: str, repeated: bool = False) -> dict[str, Any]:
    source = {"fileSet": {"@id": SHARDS}, "extract": {"column": column}}
    many = {"repeated": True} if repeated and kind != "sc:ImageObject" else {}
    return {"@type": "cr:Field", "@id": identity, "name": name, "description": words, "dataType": kind, "source": source, **many}


def _type_of(dtype: np.dtype[Any]) -> str:
    return {"f": "sc:Float", "b": "sc:Boolean", "O": "sc:Text"}.get(dtype.kind, "sc:Integer")


def _sha256(path: Path) -> str:
    """Empty where the file cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
    except OSError:
        return ""
    return digest.hexdigest()


_STEP_WORDS = {
    "reward": "The reward that followed the action.",
    "discount": "0 on the transition into a terminal state, else 1.",
    "is_first": "Whether the step is the first of its episode.",
    "is_last": "Whether the step is the last of its episode.",
    "is_terminal": "Whether the observation is of a terminal state.",
}
_STEP_TYPES = {"reward": "sc:Float", "discount": "sc:Float", "is_first": "sc:Boolean", "is_last": "sc:Boolean", "is_terminal": "sc:Boolean"}
