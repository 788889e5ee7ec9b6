"""One small project with a history, made once for all tests of lineage."""

from collections.abc import Iterator

import pytest

from tests.pipelines.lineage.small_project import History, make_history


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    """Tests read it and leave it as it is; `copy` gives one to change."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path_factory.mktemp("site")))
        yield make_history(tmp_path_factory.mktemp("history") / "project")
