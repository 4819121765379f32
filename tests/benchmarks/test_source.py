"""The license gate, the selection of videos, and the files of a user's own copy."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.published_data import (
    V1,
    V1_ANNOTATIONS,
    V2,
    parquet_bytes,
    read,
    table,
    v1_rows,
    v2_rows,
)
from videomme_pipeline.benchmarks.benchmark import Benchmark, License
from videomme_pipeline.benchmarks.declared_source import DeclaredSource
from videomme_pipeline.benchmarks.question import Question, videos_of
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.benchmarks.selection import BenchmarkSettings
from videomme_pipeline.benchmarks.source import OnProgress, Source
from videomme_pipeline.configuration import parse_spec
from videomme_pipeline.errors import AnnotationError, ConfigurationError, LicenseNotAcceptedError
from videomme_pipeline.fetch.release import VideoReference

V1_BENCHMARK, V2_BENCHMARK = find_benchmark("videomme"), find_benchmark("videomme_v2")


def opened(benchmark: Benchmark, spec: BenchmarkSettings, folder: Path = Path()) -> DeclaredSource:
    source = benchmark.open_source(spec, folder)
    assert isinstance(source, DeclaredSource)
    return source


def own_copy(folder: Path, **changes: Any) -> BenchmarkSettings:
    values = {"accept_license": True, "source": "folder", "folder": folder} | changes
    return BenchmarkSettings.model_validate(values)


def write(path: Path, data: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


class OwnSource(Source):
    """A source that checks nothing."""

    version = "1"

    def questions(self) -> Sequence[Question]:
        return ()

    def fetch(self, videos: Sequence[VideoReference], on_progress: OnProgress) -> Mapping[str, str]:  # noqa: ARG002
        return {}


OWN_LICENSE = License(
    name="House license", terms="House is for research only", url="https://house.invalid/terms"
)
OWN = Benchmark(name="house", title="House", source=OwnSource, facets=(), license=OWN_LICENSE)


@pytest.mark.parametrize("benchmark", [V1_BENCHMARK, V2_BENCHMARK, OWN])
@pytest.mark.parametrize("source", ["hub", "folder"])
def test_no_source_is_opened_before_the_license_is_accepted(
    benchmark: Benchmark, source: str, tmp_path: Path
) -> None:
    spec = own_copy(tmp_path, source=source, accept_license=False)
    with pytest.raises(LicenseNotAcceptedError, match="accept_license: true"):
        benchmark.open_source(spec, tmp_path / "media")
    assert benchmark.open_source(own_copy(tmp_path, source=source), tmp_path / "media")
    assert list(tmp_path.iterdir()) == []


def test_the_terms_come_from_the_benchmark() -> None:
    with pytest.raises(LicenseNotAcceptedError, match="v2: Video-MME-v2 is for academic research"):
        V2_BENCHMARK.open_source(BenchmarkSettings(), Path())
    with pytest.raises(LicenseNotAcceptedError, match=r"house: House is for .*house.invalid/terms"):
        OWN.open_source(BenchmarkSettings(), Path())


def test_a_license_without_acceptance_needs_no_setting() -> None:
    license_ = OWN_LICENSE.model_copy(update={"needs_acceptance": False})
    free = OWN.model_copy(update={"license": license_})
    assert free.open_source(BenchmarkSettings(), Path()).name == "house"
    without = OWN.model_copy(update={"license": None})
    assert without.open_source(BenchmarkSettings(), Path()).name == "house"


def test_the_license_is_not_accepted_by_default() -> None:
    assert BenchmarkSettings().accept_license is False


@pytest.mark.parametrize("release", [V1, V2], ids=lambda release: release.benchmark)
def test_releases_are_pinned_to_commits_and_checksums(release: Any) -> None:
    assert len(release.hub.revision) == 40
    assert len(release.hub.sha256.keys() - {release.hub.subtitles}) == 1
    assert {len(value) for value in release.hub.sha256.values()} == {64}


def test_the_number_of_a_v2_video_determines_the_archive() -> None:
    assert V2.hub.archives_with("001") == V2.hub.archives_with("020") == ("videos/001.zip",)
    assert V2.hub.archives_with("021") == ("videos/002.zip",)
    assert V2.hub.archives_with("800") == ("videos/040.zip",)
    assert V2.hub.archives_with("801") == V2.hub.archives_with("000") == ()


def test_any_v1_archive_may_contain_a_video() -> None:
    assert V1.hub.archives_with("001") == V1.hub.archives


# Selection of videos


@pytest.fixture(scope="module")
def v1_questions() -> tuple[Question, ...]:
    return read("videomme", table(v1_rows()))


def test_limit_takes_the_first_videos_with_all_their_questions(
    v1_questions: tuple[Question, ...],
) -> None:
    chosen = BenchmarkSettings(limit=2).select(v1_questions)
    assert [video.video_id for video in videos_of(chosen)] == ["001", "002"]
    assert len(chosen) == 6


def test_named_videos_stay_in_published_order_and_limit_counts_among_them(
    v1_questions: tuple[Question, ...],
) -> None:
    chosen = BenchmarkSettings(videos=("900", "005", "010"), limit=2).select(v1_questions)
    assert [video.video_id for video in videos_of(chosen)] == ["005", "010"]


def test_the_error_for_an_unknown_video_has_the_range_of_ids(
    v1_questions: tuple[Question, ...],
) -> None:
    with pytest.raises(ConfigurationError, match="901, but the benchmark has 900 videos from 001"):
        BenchmarkSettings(videos=("001", "901")).select(v1_questions)


def test_the_path_of_the_files_does_not_change_the_fingerprint(tmp_path: Path) -> None:
    assert own_copy(tmp_path).fingerprint == BenchmarkSettings().fingerprint
    assert BenchmarkSettings(limit=3).fingerprint != BenchmarkSettings().fingerprint
    assert BenchmarkSettings(revision="a" * 40).fingerprint != BenchmarkSettings().fingerprint


# Configuration


def test_the_error_for_a_typo_names_the_right_key() -> None:
    with pytest.raises(ConfigurationError, match="did you mean `accept_license`"):
        parse_spec({"accept_licence": True}, BenchmarkSettings, "benchmarks.yaml, videomme")


def test_a_branch_name_is_not_a_revision() -> None:
    with pytest.raises(ValidationError, match="revision"):
        BenchmarkSettings(revision="main")


def test_source_folder_needs_a_folder() -> None:
    with pytest.raises(ValidationError, match="source: folder needs `folder`"):
        BenchmarkSettings.model_validate({"source": "folder"})


# A user's own copy


@pytest.mark.parametrize(
    "layout",
    [
        "videomme/test-00000-of-00001.parquet",
        "test-00000-of-00001.parquet",
        "snapshots/ead1408/videomme/test-00000-of-00001.parquet",
        "datasets--lmms-lab--Video-MME/snapshots/ead1408/videomme/test-00000-of-00001.parquet",
        "hub/datasets--lmms-eval--Video-MME/snapshots/ead1408/videomme/test-00000-of-00001.parquet",
    ],
)
def test_v1_annotations_are_found_where_tools_put_them(layout: str, tmp_path: Path) -> None:
    path = write(tmp_path / layout)
    assert opened(V1_BENCHMARK, own_copy(tmp_path)).stored_annotations() == (path,)


@pytest.mark.parametrize(
    "layout",
    ["test.parquet", "hub/datasets--MME-Benchmarks--Video-MME-v2/snapshots/6e4/test.parquet"],
)
def test_v2_annotations_are_found_where_tools_put_them(layout: str, tmp_path: Path) -> None:
    path = write(tmp_path / layout)
    assert opened(V2_BENCHMARK, own_copy(tmp_path)).stored_annotations() == (path,)


def test_annotations_may_be_a_file_elsewhere(tmp_path: Path) -> None:
    path = write(tmp_path / "elsewhere.parquet", parquet_bytes(v2_rows()))
    spec = own_copy(tmp_path, annotations=path)
    source = opened(V2_BENCHMARK, spec)
    assert source.stored_annotations() == (path,)
    assert len(source.questions()) == 3200


def test_annotations_are_read_again_only_if_they_changed(tmp_path: Path) -> None:
    rows = v1_rows()
    file = write(tmp_path / V1_ANNOTATIONS, parquet_bytes(rows))
    spec = own_copy(tmp_path)
    first = opened(V1_BENCHMARK, spec).stored_questions()
    assert first is not None
    assert opened(V1_BENCHMARK, spec).stored_questions() is first
    write(file, parquet_bytes([{**rows[0], "question": "Changed?"}, *rows[1:]]))
    changed = opened(V1_BENCHMARK, spec).stored_questions()
    assert changed is not None
    assert changed.questions[0].question == "Changed?"
    assert changed.questions[1:] == first.questions[1:]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_subtitles_are_looked_for_only_in_rows_that_may_have_some(
    tmp_path: Path, encoding: str
) -> None:
    """A plan asks for the subtitles of each video, and reads no rows of a file that has none."""
    path = write(tmp_path / "videomme" / "test-00000-of-00001.jsonl", b"not JSON")
    video = read("videomme", table(v1_rows()))[0].reference
    assert opened(V1_BENCHMARK, own_copy(tmp_path)).subtitle(video) is None
    write(path, 'not JSON, but "subtitles"'.encode(encoding))
    with pytest.raises(AnnotationError, match="JSON"):
        opened(V1_BENCHMARK, own_copy(tmp_path)).subtitle(video)


def test_json_annotations_are_found_if_there_is_no_parquet_file(tmp_path: Path) -> None:
    path = write(tmp_path / "videomme" / "test-00000-of-00001.jsonl")
    source = opened(V1_BENCHMARK, own_copy(tmp_path))
    assert source.stored_annotations() == (path,)
    published = write(tmp_path / V1_ANNOTATIONS)
    assert source.stored_annotations() == (published,)


def test_missing_annotations_name_the_searched_folders(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError) as caught:
        opened(V1_BENCHMARK, own_copy(tmp_path)).stored_annotations()
    assert f"under {tmp_path}" in str(caught.value)
    assert "source: hub" in str(caught.value)


def test_the_error_names_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="none, which is not a folder"):
        _ = opened(V1_BENCHMARK, own_copy(tmp_path / "none")).roots


def test_annotations_of_the_hub_are_found_once_they_were_fetched(tmp_path: Path) -> None:
    source = opened(V1_BENCHMARK, BenchmarkSettings(accept_license=True), tmp_path)
    assert source.stored_annotations() == ()
    path = write(tmp_path / ".hub" / str(V1.hub.revision) / V1_ANNOTATIONS)
    assert source.stored_annotations() == (path,)


def test_v1_and_v2_in_one_cache_are_separated(tmp_path: Path) -> None:
    for name in ("lmms-lab--Video-MME", "MME-Benchmarks--Video-MME-v2"):
        write(tmp_path / "hub" / f"datasets--{name}" / "snapshots" / "abc" / "README.md")
    for name in ("videomme", "videomme_v2"):
        write(tmp_path / name / "data" / "001.mp4")
    v1, v2 = (
        opened(benchmark, own_copy(tmp_path)).roots for benchmark in (V1_BENCHMARK, V2_BENCHMARK)
    )
    assert set(v1) & set(v2) == {tmp_path}
    assert [len(v1), len(v2)] == [3, 3]
