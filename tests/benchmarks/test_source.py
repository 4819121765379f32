"""The licence gate, the choice of videos, and finding a user's own copy."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.published_data import parquet_bytes, table, v1_rows, v2_rows
from videomme_pipeline.benchmarks import videomme, videomme_v2
from videomme_pipeline.benchmarks.question import Question, videos_of
from videomme_pipeline.benchmarks.source import (
    RELEASES,
    BenchmarkSpec,
    annotations_at_hand,
    annotations_in,
    media_roots,
    read_benchmark,
    select,
)
from videomme_pipeline.configuration import parse_spec
from videomme_pipeline.errors import (
    AnnotationError,
    ConfigurationError,
    LicenseNotAcceptedError,
)

V1, V2 = videomme.RELEASE, videomme_v2.RELEASE


def own_copy(folder: Path, **changes: Any) -> BenchmarkSpec:
    values = {"accept_license": True, "source": "folder", "folder": folder} | changes
    return BenchmarkSpec.model_validate(values)


def write(path: Path, data: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_a_local_folder_is_not_looked_at_before_the_licence_is_accepted(tmp_path: Path) -> None:
    path = write(tmp_path / V1.annotations, parquet_bytes(v1_rows()))
    spec = own_copy(tmp_path, accept_license=False)
    for use in (annotations_in, media_roots):
        with pytest.raises(LicenseNotAcceptedError, match="accept_license: true"):
            use(V1, spec)
    with pytest.raises(LicenseNotAcceptedError):
        read_benchmark(V1, spec, path)
    with pytest.raises(LicenseNotAcceptedError):
        annotations_at_hand(V1, spec, tmp_path)


def test_the_licence_is_not_accepted_unless_someone_says_so() -> None:
    assert BenchmarkSpec().accept_license is False


@pytest.mark.parametrize("release", RELEASES.values(), ids=list(RELEASES))
def test_releases_are_pinned_to_commits_and_checksums(release: Any) -> None:
    assert len(release.revision) == 40
    assert release.sha256.keys() == {release.annotations, release.subtitles}
    assert {len(value) for value in release.sha256.values()} == {64}


def test_v2_archives_follow_from_the_number() -> None:
    assert V2.archives_with("001") == V2.archives_with("020") == ("videos/001.zip",)
    assert V2.archives_with("021") == ("videos/002.zip",)
    assert V2.archives_with("800") == ("videos/040.zip",)
    assert V2.archives_with("801") == V2.archives_with("000") == ()


def test_any_v1_archive_may_hold_a_video() -> None:
    assert V1.archives_with("001") == V1.archives


# Choosing videos


@pytest.fixture(scope="module")
def v1_questions() -> tuple[Question, ...]:
    return videomme.read_questions(table(v1_rows()))


def test_limit_takes_the_first_videos_with_all_their_questions(
    v1_questions: tuple[Question, ...],
) -> None:
    chosen = select(v1_questions, BenchmarkSpec(limit=2))
    assert [video.video_id for video in videos_of(chosen)] == ["001", "002"]
    assert len(chosen) == 6


def test_named_videos_stay_in_published_order_and_limit_counts_among_them(
    v1_questions: tuple[Question, ...],
) -> None:
    chosen = select(v1_questions, BenchmarkSpec(videos=("900", "005", "010"), limit=2))
    assert [video.video_id for video in videos_of(chosen)] == ["005", "010"]


def test_an_unknown_video_is_named_with_the_ids_there_are(
    v1_questions: tuple[Question, ...],
) -> None:
    with pytest.raises(ConfigurationError, match="901, but the benchmark has 900 videos from 001"):
        select(v1_questions, BenchmarkSpec(videos=("001", "901")))


def test_where_the_files_lie_does_not_change_the_fingerprint(tmp_path: Path) -> None:
    assert own_copy(tmp_path).fingerprint == BenchmarkSpec().fingerprint
    assert BenchmarkSpec(limit=3).fingerprint != BenchmarkSpec().fingerprint
    assert BenchmarkSpec(revision="a" * 40).fingerprint != BenchmarkSpec().fingerprint


# Configuration


def test_a_typo_is_named_with_the_right_key() -> None:
    with pytest.raises(ConfigurationError, match="did you mean `accept_license`"):
        parse_spec({"accept_licence": True}, BenchmarkSpec, "benchmarks.yaml, videomme")


def test_a_branch_name_is_no_revision() -> None:
    with pytest.raises(ValidationError, match="revision"):
        BenchmarkSpec(revision="main")


def test_source_folder_needs_a_folder() -> None:
    with pytest.raises(ValidationError, match="source: folder needs `folder`"):
        BenchmarkSpec.model_validate({"source": "folder"})


# A user's own copy


@pytest.mark.parametrize(
    "place",
    [
        "videomme/test-00000-of-00001.parquet",
        "test-00000-of-00001.parquet",
        "snapshots/ead1408/videomme/test-00000-of-00001.parquet",
        "datasets--lmms-lab--Video-MME/snapshots/ead1408/videomme/test-00000-of-00001.parquet",
        "hub/datasets--lmms-eval--Video-MME/snapshots/ead1408/videomme/test-00000-of-00001.parquet",
    ],
)
def test_v1_annotations_are_found_where_tools_put_them(place: str, tmp_path: Path) -> None:
    path = write(tmp_path / place)
    assert annotations_in(V1, own_copy(tmp_path)) == path


@pytest.mark.parametrize(
    "place",
    ["test.parquet", "hub/datasets--MME-Benchmarks--Video-MME-v2/snapshots/6e4/test.parquet"],
)
def test_v2_annotations_are_found_where_tools_put_them(place: str, tmp_path: Path) -> None:
    path = write(tmp_path / place)
    assert annotations_in(V2, own_copy(tmp_path)) == path


def test_annotations_elsewhere_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path / "elsewhere.parquet", parquet_bytes(v2_rows()))
    spec = own_copy(tmp_path, annotations=path)
    assert annotations_in(V2, spec) == path
    assert len(read_benchmark(V2, spec, path)) == 3200


def test_missing_annotations_say_where_they_were_looked_for(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError) as caught:
        annotations_in(V1, own_copy(tmp_path))
    assert f"under {tmp_path}" in str(caught.value)
    assert "source: hub" in str(caught.value)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="none, which is not a folder"):
        media_roots(V1, own_copy(tmp_path / "none"))


def test_annotations_of_the_hub_are_at_hand_once_they_were_fetched(tmp_path: Path) -> None:
    spec = BenchmarkSpec(accept_license=True)
    assert annotations_at_hand(V1, spec, tmp_path) is None
    path = write(tmp_path / ".hub" / V1.revision / V1.annotations)
    assert annotations_at_hand(V1, spec, tmp_path) == path


def test_v1_and_v2_in_one_cache_are_told_apart(tmp_path: Path) -> None:
    for name in ("lmms-lab--Video-MME", "MME-Benchmarks--Video-MME-v2"):
        write(tmp_path / "hub" / f"datasets--{name}" / "snapshots" / "abc" / "README.md")
    for name in ("videomme", "videomme_v2"):
        write(tmp_path / name / "data" / "001.mp4")
    v1, v2 = (media_roots(release, own_copy(tmp_path)) for release in (V1, V2))
    assert set(v1) & set(v2) == {tmp_path}
    assert [len(v1), len(v2)] == [3, 3]
