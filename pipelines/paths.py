"""Where everything lies, relative to the project's root, from which every stage runs."""

from pathlib import Path

PARAMS = Path("params.yaml")
ARTIFACTS = Path("artifacts")
RAW = Path("artifacts/raw")  # <dataset>/<version>/: RLDS, one split "raw", manifest.json
COMBINE = Path("artifacts/combine")  # <dataset>/<parent>.json: a link to each data set that it is made of
CHECKS = Path("artifacts/checks")  # <dataset>/: report.json, quarantine.csv, card.html, card.md, croissant.json
SPLITS = Path("artifacts/splits")  # <dataset>/<version>/: RLDS, splits train, validation, test; stats.json, episodes.csv, manifest.json
MODELS = Path("artifacts/models")  # <experiment>/: policies/seed_<n>/, curves.csv, tensorboard/, manifest.json
EVALS = Path("artifacts/evals")  # <experiment>/: metrics.json, episodes.csv, fitted_q.csv, manifest.json
REPORT = Path("artifacts/report")  # index.html, summary.json
RECORDS = Path("artifacts/records")  # one JSON a stage execution; kept in git, not hashed by DVC
CHECKPOINTS = Path("artifacts/checkpoints")  # <experiment>/: training state to resume from; neither in git nor in DVC


def written_for(key: str) -> list[Path]:
    """Returns the folders in which any stage of a data set or experiment puts what it makes."""
    roots = (RAW, CHECKS, SPLITS, MODELS, EVALS, CHECKPOINTS)
    return [ARTIFACTS, *roots, *(root / key for root in roots if key)]
