"""Recorded failures of partitions."""

from pathlib import Path

from videomme_pipeline.project.state.failures import UNKNOWN, Failure, FailureLog
from videomme_pipeline.project.state.partitions import VideoVariant
from videomme_pipeline.storage.layout import Store


def test_the_reason_of_a_partition_is_read_from_its_own_file_only(tmp_path: Path) -> None:
    log = FailureLog(Store.at(tmp_path), "smoke/frames")
    failed, other = (VideoVariant(video, "uniform_n-8") for video in ("001", "002"))
    log.update(
        [failed, other], {failed: Failure("the disk is full"), other: Failure("it is damaged")}
    )
    (file_of_other,) = (path for path in tmp_path.rglob("*.json") if "002" in path.name)
    file_of_other.write_bytes(b"not JSON")
    assert str(log.not_ready(failed)) == "the disk is full"
    assert file_of_other.exists(), "a damaged file is set aside when it is read"


def test_the_error_for_a_partition_without_a_reason_says_to_materialize_it(tmp_path: Path) -> None:
    log = FailureLog(Store.at(tmp_path), "smoke/frames")
    reason = str(log.not_ready(VideoVariant("001", "uniform_n-8")))
    assert reason == "smoke/frames uniform_n-8 001 is not up to date; materialize it first"


def test_a_failure_names_what_could_not_be_built_and_a_new_attempt_replaces_it(
    tmp_path: Path,
) -> None:
    log = FailureLog(Store.at(tmp_path), "smoke/frames")
    partition = VideoVariant("001", "uniform_n-8")
    log.update([partition], {partition: Failure("it is damaged", "a" * 24)})
    assert log.read() == {partition: Failure("it is damaged", "a" * 24)}
    log.update([partition], {partition: Failure("there is no file")})
    assert log.read() == {partition: Failure("there is no file", UNKNOWN)}
    log.update([partition], {})
    assert log.read() == {}
