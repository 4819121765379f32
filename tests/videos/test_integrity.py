"""The findings about a benchmark's local data."""

from pathlib import Path

from tests.support.published_data import parquet_bytes, v1_rows
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.benchmarks.selection import BenchmarkSettings
from videomme_pipeline.errors import Finding, Status
from videomme_pipeline.videos.integrity import check_data


def own_copy(folder: Path) -> BenchmarkSettings:
    """A user's folder with the annotations of v1 and the first three of its videos."""
    rows = v1_rows()
    (folder / "data").mkdir()
    (folder / "subtitle").mkdir()
    (folder / "test-00000-of-00001.parquet").write_bytes(parquet_bytes(rows))
    for row in rows[:9:3]:
        (folder / "data" / f"{row['videoID']}.mp4").write_bytes(b"\0")
    return BenchmarkSettings.model_validate(
        {"accept_license": True, "source": "folder", "folder": folder, "limit": 4}
    )


def check(spec: BenchmarkSettings, folder: Path) -> list[Finding]:
    return check_data(lambda: find_benchmark("videomme").open_source(spec, folder))


def by_check(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.check: finding for finding in findings}


def test_without_an_accepted_license_nothing_else_is_checked(tmp_path: Path) -> None:
    spec = own_copy(tmp_path).model_copy(update={"accept_license": False})
    (finding,) = check(spec, tmp_path)
    assert (finding.check, finding.status) == ("license", Status.ERROR)
    assert "accept_license: true" in finding.summary


def test_present_and_missing_files_are_counted(tmp_path: Path) -> None:
    findings = by_check(check(own_copy(tmp_path), tmp_path / "media"))
    assert findings["license"].status is Status.OK
    assert "12 questions on 4 videos" in findings["annotations"].summary
    assert findings["videos"].status is Status.ERROR
    assert f"3 of 4 under {tmp_path}" in findings["videos"].summary
    assert f"missing: 004 ({v1_rows()[9]['videoID']})" in findings["videos"].summary
    assert findings["subtitles"].status is Status.WARNING
    assert "0 of 4 videos" in findings["subtitles"].summary


def test_the_header_of_a_video_shows_if_it_was_cut_off(tmp_path: Path) -> None:
    spec = own_copy(tmp_path).model_copy(update={"limit": 3})
    first, second, _ = (tmp_path / "data" / f"{row['videoID']}.mp4" for row in v1_rows()[:9:3])
    first.write_bytes(b"\0\0\0\x10ftypisom\0\0\0\0" + b"\0\0\x10\0mdat")
    second.write_bytes(b"<html>")
    finding = by_check(check(spec, tmp_path / "media"))["videos"]
    assert finding.status is Status.ERROR
    assert "1 of 3 under" in finding.summary
    assert f"{first.name}: an mp4 without its table of contents" in finding.summary
    assert "24 of at least 4,112 bytes are there" in finding.summary
    assert f"{second.name}: not a video but an HTML page" in finding.summary


def test_the_finding_names_files_that_are_not_read(tmp_path: Path) -> None:
    spec = own_copy(tmp_path)
    first, _, _, fourth = (str(row["videoID"]) for row in v1_rows()[:12:3])
    for name in (f"data/{fourth}.webm", f"subtitle/{first}.en.srt", f"data/{first}.mkv"):
        (tmp_path / name).write_text("content")
    findings = by_check(check(spec, tmp_path / "media"))
    assert f"Only .mp4 and .mkv are read: convert {fourth}.webm" in findings["videos"].summary
    assert f"not read: {first}.en.srt; rename them to <id>.srt" in findings["subtitles"].summary
    assert f"{first}.mp4 is read, " in findings["duplicates"].summary
    assert f"{first}.mkv is not" in findings["duplicates"].summary


def test_a_complete_copy_passes_every_check(tmp_path: Path) -> None:
    spec = own_copy(tmp_path).model_copy(update={"limit": 3})
    (tmp_path / "subtitle" / f"{v1_rows()[0]['videoID']}.srt").touch()
    findings = check(spec, tmp_path / "media")
    assert {finding.status for finding in findings} == {Status.OK}


def test_a_missing_folder_fails(tmp_path: Path) -> None:
    spec = own_copy(tmp_path).model_copy(update={"folder": str(tmp_path / "none")})
    assert check(spec, tmp_path)[-1].status is Status.ERROR


def test_data_that_is_not_fetched_yet_is_a_warning(tmp_path: Path) -> None:
    findings = check(BenchmarkSettings(accept_license=True), tmp_path)
    assert [finding.status for finding in findings] == [Status.OK, Status.WARNING]
    assert "not fetched yet" in findings[-1].summary
