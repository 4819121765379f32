"""Shared by all tests: the hypothesis profile, the registry, and the odd videos of a session."""

import gc
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support import migrations, shards  # noqa: F401 - changes Alembic
from tests.support.builders import ODD_VIDEOS
from tests.support.registered import registered
from tests.support.shared_files import OddVideos, session_folder

# What a script starts in the background ignores Ctrl-C, as would all commands that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # until all tests are collected

# A deadline per example fails on a busy machine and says nothing about behavior. Examples are the
# same in every run, so that a failure comes from a change; `--hypothesis-profile search` draws
# others.
settings.register_profile("videomme", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None)
settings.load_profile("videomme")


def pytest_addoption(parser: pytest.Parser) -> None:
    shards.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    shards.configure(config)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Distribute what `-m` and `-k` have left."""
    shards.select(config, items)


@pytest.fixture(scope="module", autouse=True)
def registry_of_the_module() -> Iterator[None]:
    """The benchmarks that a module's projects declare are not known to other modules."""
    with registered():
        yield


@pytest.fixture(scope="session")
def odd_videos(tmp_path_factory: pytest.TempPathFactory) -> OddVideos:
    """The odd videos, each encoded once per session."""
    return OddVideos(session_folder(tmp_path_factory, "odd_videos"))


@pytest.fixture(params=sorted(ODD_VIDEOS))
def odd_video(request: pytest.FixtureRequest, odd_videos: OddVideos) -> Path:
    """Each of the odd videos in turn. Tests must not change it."""
    return odd_videos.path(request.param)


def pytest_collection_finish() -> None:
    """Let no later collection of garbage search the modules of the project and of the tests."""
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()


def pytest_make_parametrize_id(val: object) -> str | None:
    """An id without backslashes, because mutmut cannot run a test that has one in its id."""
    if isinstance(val, bytes):
        val = val.decode("latin-1")
    if not isinstance(val, str):
        return None
    text = val.encode("unicode_escape").decode("ascii")
    return text.replace("\\", "/") if "\\" in text else None
