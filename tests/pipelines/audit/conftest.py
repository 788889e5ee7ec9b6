"""One small project that the real stages made, for all tests of the audit."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.once import made_once
from tests.pipelines.audit.small_project import make_project


@pytest.fixture(scope="session")
def real_project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Tests leave it as it is; who changes something copies it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path_factory.mktemp("site")))
        yield made_once(tmp_path_factory, "real_project", make_project)


@pytest.fixture
def project(real_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy in another folder by another name: nothing that the audit goes by is an absolute path."""
    root = tmp_path / "moved and renamed"
    shutil.copytree(real_project, root, symlinks=True)
    monkeypatch.chdir(root)
    return root
