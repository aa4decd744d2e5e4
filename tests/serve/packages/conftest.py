"""What the tests of images look at: a context with models inside, and one without; their wheels have no code."""

from pathlib import Path

import pytest

from cnna.serve.packages.contents import contents_of
from cnna.serve.packages.image import make_image

from .test_service import wheel


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for name in ("cnna", "pyyaml"):
        wheel(folder, name)
    return folder


@pytest.fixture(scope="module", params=[False, True], ids=["monolithic", "independent"])
def context(request: pytest.FixtureRequest, published: Path, wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A context; its name says whether it has models."""
    folder = tmp_path_factory.mktemp("image") / ("independent" if request.param else "monolithic")
    make_image(contents_of(published), folder, wheels, tag="registry.example/cnna:1", independent=request.param)
    return folder
