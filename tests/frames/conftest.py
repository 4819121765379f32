"""The odd videos, built once for all tests of frames."""

from pathlib import Path

import pytest

from tests.support.builders import ODD_VIDEOS


@pytest.fixture(scope="session")
def odd_video_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("odd_videos")


@pytest.fixture(params=sorted(ODD_VIDEOS))
def odd_video(request: pytest.FixtureRequest, odd_video_folder: Path) -> Path:
    path = odd_video_folder / request.param
    return path if path.exists() else ODD_VIDEOS[request.param](path)
