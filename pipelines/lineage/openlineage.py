"""OpenLineage's event form (openlineage.io, spec 2-0-2): the frame of an event, its facets, and sending it to an endpoint.

Names of this project's own facets begin with "hindcast_", as the specification asks of custom ones.
"""

import json
import os
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

NAMESPACE = "hindcast"
PACKAGE = "hindcast"
SPEC = "https://openlineage.io/spec"
EVENT_SCHEMA = f"{SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
TIMEOUT = 2.0  # seconds; a run does not wait longer for an endpoint that is away

# The schema of each standard facet that is used, by its key in an event. Custom facets name the base of their kind.
_STANDARD = {
    "processing_engine": "1-1-1/ProcessingEngineRunFacet",
    "errorMessage": "1-0-1/ErrorMessageRunFacet",
    "jobType": "2-0-4/JobTypeJobFacet",
    "version": "1-0-1/DatasetVersionDatasetFacet",
    "outputStatistics": "1-0-2/OutputStatisticsOutputDatasetFacet",
}


def event(
    kind: str,
    time: str,
    run_id: str,
    name: str,
    run_facets: Mapping[str, Any],
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
) -> dict[str, Any]:
    """Returns a RunEvent: `kind` is START, COMPLETE, FAIL or ABORT, `time` ISO 8601, `run_id` a UUID, `name` the job's."""
    return {
        "eventType": kind,
        "eventTime": time,
        "producer": producer(),
        "schemaURL": EVENT_SCHEMA,
        "run": {"runId": run_id, "facets": facets("RunFacet", run_facets)},
        "job": job(name),
        "inputs": list(inputs),
        "outputs": list(outputs),
    }


def job(name: str) -> dict[str, Any]:
    """Returns a job such as "train@cartpole_iql"."""
    job_type = {"processingType": "BATCH", "integration": "HINDCAST", "jobType": name.partition("@")[0].upper()}
    return {"namespace": NAMESPACE, "name": name, "facets": facets("JobFacet", {"jobType": job_type})}


def dataset(name: str, values: Mapping[str, Any], output: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns an input dataset with these facets; with `output`, its output facets, an output dataset."""
    described = {"namespace": NAMESPACE, "name": name, "facets": facets("DatasetFacet", values)}
    return described if output is None else {**described, "outputFacets": facets("OutputDatasetFacet", output)}


def facets(base: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns facets with their producer and schema."""
    return {name: {**value, "_producer": producer(), "_schemaURL": _schema(base, name)} for name, value in values.items()}


def producer() -> str:
    try:
        return f"urn:{PACKAGE}:{version(PACKAGE)}"
    except PackageNotFoundError:  # it runs from a folder, not installed
        return f"urn:{PACKAGE}"


def send(content: Mapping[str, Any]) -> None:
    """Sends an event where OPENLINEAGE_URL says, as OpenLineage's own clients do; does nothing without it.

    Never raises: where the endpoint is away or refuses, it says so in one line on standard error.
    """
    address = os.environ.get("OPENLINEAGE_URL", "")
    if not address:
        return
    url = f"{address.rstrip('/')}/{os.environ.get('OPENLINEAGE_ENDPOINT', 'api/v1/lineage').lstrip('/')}"
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("OPENLINEAGE_API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    try:
        if not url.startswith(("http://", "https://")):
            raise ValueError("it is no http address")
        request = urllib.request.Request(url, json.dumps(content).encode(), headers)  # noqa: S310  the scheme is looked at above
        with urllib.request.urlopen(request, timeout=TIMEOUT):  # noqa: S310
            pass
    except Exception as error:  # a run does not fail because an endpoint is away, however it is away
        print(f"The record was not sent to OPENLINEAGE_URL ({' '.join(str(error).split())}). The run goes on.", file=sys.stderr)


def _schema(base: str, name: str) -> str:
    standard = _STANDARD.get(name)
    return f"{SPEC}/facets/{standard}.json#/$defs/{standard.split('/')[1]}" if standard else f"{SPEC}/2-0-2/OpenLineage.json#/$defs/{base}"
