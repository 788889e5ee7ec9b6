"""One small project with a history, made once for all tests of lineage."""

from collections.abc import Iterator

import pytest

from tests.once import made_once
from tests.pipelines.lineage.small_project import History, git, make_history


@pytest.fixture(scope="session")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    """Tests read it and leave it as it is; `copy` gives one to change."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DVC_SITE_CACHE_DIR", str(tmp_path_factory.mktemp("site")))
        root = made_once(tmp_path_factory, "history", make_history)
        yield History(root, *git("log", "--reverse", "--format=%H", root=root).split())
