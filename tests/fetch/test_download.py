"""Fetching annotations, subtitles and videos from a hub, and each of its failures."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock

from tests.support.hub_server import HubServer, running_hub
from tests.support.published_data import (
    REVISION,
    V1,
    V1_ANNOTATIONS,
    V2,
    parquet_bytes,
    publish_v1,
    publish_v2,
    read,
    release,
    v1_rows,
    youtube_ids,
    zip_bytes,
)
from videomme_pipeline.benchmarks.registry import find_benchmark
from videomme_pipeline.benchmarks.selection import BenchmarkSettings
from videomme_pipeline.errors import DownloadError, LicenseNotAcceptedError, StorageError
from videomme_pipeline.fetch.download import fetch_files, fetch_subtitles, fetch_videos
from videomme_pipeline.fetch.release import Release, VideoReference

ACCEPTED = BenchmarkSettings(accept_license=True, revision=REVISION)


def fetch_annotations(files: Release, folder: Path) -> Path:
    (path,) = fetch_files(files, folder, [V1_ANNOTATIONS])
    return path


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with running_hub() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield running


@dataclass(frozen=True)
class Published:
    """The files of both datasets by repository and path, and v1's videos by YouTube id."""

    files: dict[tuple[str, str], dict[str, bytes]]
    v1_videos: dict[str, bytes]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    hub = HubServer()
    v1_videos = publish_v1(hub, tmp_path_factory.mktemp("clips"))
    publish_v2(hub, tmp_path_factory.mktemp("clips"))
    return Published(hub.files, v1_videos)


@pytest.fixture
def v1(hub: HubServer, published: Published) -> HubServer:
    """A hub with the files of v1, which a test may change."""
    hub.files[V1.hub.repository, REVISION] = dict(published.files[V1.hub.repository, REVISION])
    return hub


@pytest.fixture
def v2(hub: HubServer, published: Published) -> HubServer:
    """A hub with the files of v2, which a test may change."""
    hub.files[V2.hub.repository, REVISION] = dict(published.files[V2.hub.repository, REVISION])
    return hub


def v1_videos() -> tuple[VideoReference, ...]:
    ids = enumerate(youtube_ids(900), start=1)
    return tuple(VideoReference(f"{number:03d}", name) for number, name in ids)


def v2_videos(*numbers: int) -> list[VideoReference]:
    return [VideoReference(f"{number:03d}", None) for number in numbers]


def publish_archive(hub: HubServer, archive: str, members: dict[str, bytes]) -> None:
    """Replace a published archive of v2."""
    hub.files[V2.hub.repository, REVISION][archive] = zip_bytes(members)


def files_under(folder: Path) -> list[str]:
    """Files under a folder, without hidden files and folders."""
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


# Annotations


def test_the_questions_arrive_as_published(v1: HubServer, tmp_path: Path) -> None:
    path = fetch_annotations(V1, tmp_path)
    assert path.read_bytes() == parquet_bytes(v1_rows())
    assert len(read("videomme", path)) == 2700


def test_nothing_is_requested_before_the_license_is_accepted(v1: HubServer, tmp_path: Path) -> None:
    with pytest.raises(LicenseNotAcceptedError, match="academic research only"):
        find_benchmark("videomme").open_source(BenchmarkSettings(revision=REVISION), tmp_path)
    source = find_benchmark("videomme").open_source(ACCEPTED, tmp_path)
    assert v1.requests == []
    assert list(tmp_path.iterdir()) == []
    assert len(source.questions()) == 2700


def test_existing_files_are_not_requested_again(v1: HubServer, tmp_path: Path) -> None:
    fetch_annotations(V1, tmp_path)
    v1.requests.clear()
    fetch_annotations(V1, tmp_path)
    assert v1.requests == []


def test_revisions_do_not_mix(v1: HubServer, tmp_path: Path) -> None:
    other = "f" * 40
    v1.add(V1.hub.repository, other, V1_ANNOTATIONS, parquet_bytes(v1_rows()[::-1]))
    first = fetch_annotations(V1, tmp_path)
    second = fetch_annotations(replace(V1, revision=other), tmp_path)
    assert first.read_bytes() != second.read_bytes()


@pytest.mark.parametrize("resets", [False, True], ids=["closed", "reset"])
def test_an_interrupted_download_resumes_where_it_stopped(
    resets: bool, v1: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1000)
    v1.resets = resets
    v1.cut_after[V1_ANNOTATIONS] = [5000]
    assert fetch_annotations(V1, tmp_path).read_bytes() == parquet_bytes(v1_rows())
    assert [asked.range for asked in v1.content_requests(V1_ANNOTATIONS)] == [None, "bytes=5000-"]


def test_a_download_resumes_after_its_process_was_killed(hub: HubServer, tmp_path: Path) -> None:
    data = os.urandom(25_000_000)
    hub.add(V1.hub.repository, REVISION, V1_ANNOTATIONS, data)
    hub.stall_after[V1_ANNOTATIONS] = 22_000_000
    fetch = (
        "import sys; from pathlib import Path;"
        "from tests.support.published_data import V1, V1_ANNOTATIONS;"
        "from videomme_pipeline.fetch import download;"
        "download.fetch_files(V1, Path(sys.argv[1]), [V1_ANNOTATIONS])"
    )
    with subprocess.Popen([sys.executable, "-c", fetch, str(tmp_path)]) as process:
        assert hub.stalled.wait(timeout=60)
        (partial,) = wait_for_partial(tmp_path, 20_000_000)
        process.send_signal(signal.SIGKILL)
    hub.go_on.set()
    written = partial.stat().st_size
    assert fetch_annotations(V1, tmp_path).read_bytes() == data
    assert hub.content_requests(V1_ANNOTATIONS)[-1].range == f"bytes={written}-"
    assert not partial.exists()


def wait_for_partial(folder: Path, size_bytes: int) -> list[Path]:
    """The partial files under a folder, once one has `size_bytes`."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        partial = [path for path in folder.rglob("*.partial") if path.stat().st_size >= size_bytes]
        if partial:
            return partial
        time.sleep(0.05)
    raise TimeoutError(f"nothing of {size_bytes} bytes under {folder}")


def test_a_file_with_a_wrong_checksum_is_deleted_and_fetched_by_the_next_run(
    v1: HubServer, tmp_path: Path
) -> None:
    good = v1.files[V1.hub.repository, REVISION][V1_ANNOTATIONS]
    v1.altered[V1_ANNOTATIONS] = good[:-1] + bytes([good[-1] ^ 1])
    with pytest.raises(DownloadError, match="the hub reports"):
        fetch_annotations(V1, tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"] == []
    v1.altered.clear()
    assert fetch_annotations(V1, tmp_path).read_bytes() == good


def test_the_pinned_revision_must_have_the_pinned_checksum(v1: HubServer, tmp_path: Path) -> None:
    pinned = release("videomme")
    v1.add(V1.hub.repository, str(pinned.revision), V1_ANNOTATIONS, parquet_bytes(v1_rows()))
    with pytest.raises(DownloadError, match=r"7fffab8ed38e.* is pinned"):
        fetch_annotations(pinned, tmp_path)
    assert v1.content_requests(V1_ANNOTATIONS) == []


# Failures of the repository itself


def test_the_error_names_an_unknown_revision(v1: HubServer, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"Video-MME at ffffffffffff: .* no such revision"):
        fetch_annotations(replace(V1, revision="f" * 40), tmp_path)


def test_the_error_names_an_unknown_repository(hub: HubServer, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"lmms-eval/Video-MME .*the repository does not exist"):
        fetch_videos(V1, v1_videos()[:1], tmp_path)


def test_the_error_names_a_file_that_the_revision_lacks(v1: HubServer, tmp_path: Path) -> None:
    del v1.files[V1.hub.repository, REVISION][V1_ANNOTATIONS]
    with pytest.raises(DownloadError, match=r"test-00000-of-00001\.parquet is not in"):
        fetch_annotations(V1, tmp_path)


def test_the_error_of_a_gated_repository_says_how_to_get_access(
    v1: HubServer, tmp_path: Path
) -> None:
    v1.gated = True
    with pytest.raises(DownloadError, match=r"gated; ask for access.*HF_TOKEN"):
        fetch_annotations(V1, tmp_path)


def test_a_private_repository_needs_a_token(
    v1: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    v1.token = "hf_right"
    with pytest.raises(DownloadError, match="HF_TOKEN"):
        fetch_annotations(V1, tmp_path)
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    assert fetch_annotations(V1, tmp_path).is_file()


def test_the_token_is_sent_only_to_the_hub(
    v1: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    fetch_videos(V1, v1_videos()[:1], tmp_path)
    sent = {asked.path.split("/")[1]: asked.authorization for asked in v1.requests}
    assert sent == {"api": "Bearer hf_secret", "datasets": "Bearer hf_secret", "content": None}


def test_the_error_names_an_unreachable_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DownloadError, match=r"the connection failed.*HF_ENDPOINT"):
        fetch_annotations(V1, tmp_path)


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (403, "set HF_TOKEN to a token that may access it"),
        (404, "the file is not in this revision"),
        (500, "run again later"),
    ],
)
def test_a_refused_file_says_what_to_do(
    v1: HubServer, tmp_path: Path, status: int, advice: str
) -> None:
    v1.broken[V1_ANNOTATIONS] = status
    with pytest.raises(DownloadError, match=f"the hub answered {status} .*{advice}"):
        fetch_annotations(V1, tmp_path)


def test_a_partial_file_that_is_too_long_is_fetched_again(v1: HubServer, tmp_path: Path) -> None:
    target = tmp_path / ".hub" / REVISION / V1_ANNOTATIONS
    target.parent.mkdir(parents=True)
    target.with_name(f".{target.name}.partial").write_bytes(bytes(10_000_000))
    assert fetch_annotations(V1, tmp_path) == target
    assert target.read_bytes() == parquet_bytes(v1_rows())


def test_a_link_with_the_name_of_a_partial_file_is_not_followed(
    v1: HubServer, tmp_path: Path
) -> None:
    target, precious = tmp_path / ".hub" / REVISION / V1_ANNOTATIONS, tmp_path / "precious"
    target.parent.mkdir(parents=True)
    precious.write_bytes(b"of the user")
    target.with_name(f".{target.name}.partial").symlink_to(precious)
    with pytest.raises(DownloadError, match="symbolic link"):
        fetch_annotations(V1, tmp_path)
    assert precious.read_bytes() == b"of the user"


def test_offline_mode_uses_existing_files_and_sends_no_request(
    v1: HubServer, tmp_path: Path
) -> None:
    fetch = (
        "import sys; from pathlib import Path;"
        "from tests.support.published_data import V1, V1_ANNOTATIONS;"
        "from videomme_pipeline.fetch import download;"
        "print(download.fetch_files(V1, Path(sys.argv[1]), [V1_ANNOTATIONS])[0])"
    )
    offline = {**os.environ, "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", fetch, str(tmp_path)]
    refused = subprocess.run(command, env=offline, capture_output=True, text=True, check=False)
    assert "HF_HUB_OFFLINE is set" in refused.stderr
    assert v1.requests == []
    path = fetch_annotations(V1, tmp_path)
    used = subprocess.run(command, env=offline, capture_output=True, text=True, check=True)
    assert used.stdout.strip() == str(path)


# Subtitles


def test_subtitles_of_the_wanted_videos_are_unzipped(v1: HubServer, tmp_path: Path) -> None:
    requested = [*v1_videos()[:3], v1_videos()[899]]
    assert fetch_subtitles(V1, requested, tmp_path) == {}
    assert files_under(tmp_path) == sorted(f"subtitle/{v.youtube_id}.srt" for v in requested[:3])


def test_a_damaged_subtitle_does_not_stop_the_others(v2: HubServer, tmp_path: Path) -> None:
    members = {f"subtitle/{number:03d}.jsonl": b'{"text": "%d"}' % number for number in (1, 2)}
    data = bytearray(zip_bytes(members))
    data[data.index(b'{"text": "1"}')] ^= 1
    v2.add(V2.hub.repository, REVISION, str(V2.hub.subtitles), bytes(data))
    problems = fetch_subtitles(V2, v2_videos(1, 2), tmp_path)
    assert problems.keys() == {"001"}
    assert "001.jsonl: damaged" in problems["001"]
    assert files_under(tmp_path) == ["subtitle/002.jsonl"]


# Videos


def test_wanted_videos_of_v1_are_found_in_their_archives(
    v1: HubServer, published: Published, tmp_path: Path
) -> None:
    requested = v1_videos()[:4]
    assert fetch_videos(V1, requested, tmp_path) == {}
    suffixes = [".mp4", ".MP4", ".mkv", ".mp4"]
    assert files_under(tmp_path) == sorted(
        f"data/{video.file_stem}{suffix}" for video, suffix in zip(requested, suffixes, strict=True)
    )
    for video, suffix in zip(requested, suffixes, strict=True):
        path = tmp_path / "data" / f"{video.file_stem}{suffix}"
        assert path.read_bytes() == published.v1_videos[video.file_stem]


def test_only_the_needed_member_and_the_directory_are_transferred(
    v2: HubServer, tmp_path: Path
) -> None:
    videos = {f"{number:03d}.mp4": os.urandom(300_000) for number in range(1, 21)}
    publish_archive(v2, "videos/001.zip", videos)
    assert fetch_videos(V2, v2_videos(7), tmp_path) == {}
    assert (tmp_path / "videos" / "007.mp4").read_bytes() == videos["007.mp4"]
    transferred = sum(asked.length for asked in v2.content_requests("videos/001.zip"))
    assert 300_000 < transferred < 300_000 + 4 * 65_536


def test_v1_reads_every_directory_but_only_one_archive(v1: HubServer, tmp_path: Path) -> None:
    fetch_videos(V1, v1_videos()[:1], tmp_path)
    requests = sorted(len(v1.content_requests(archive)) for archive in V1.hub.archives)
    assert requests[:-1] == [requests[0]] * 19
    assert requests[-1] > requests[0]


def test_v2_reads_only_the_archives_of_the_video_numbers(v2: HubServer, tmp_path: Path) -> None:
    assert fetch_videos(V2, v2_videos(20, 21, 800), tmp_path) == {}
    assert files_under(tmp_path) == ["videos/020.mp4", "videos/021.mp4", "videos/800.mp4"]
    asked = {archive for archive in V2.hub.archives if v2.content_requests(archive)}
    assert asked == {"videos/001.zip", "videos/002.zip", "videos/040.zip"}


def test_an_archive_that_is_mostly_wanted_is_downloaded_whole(
    v2: HubServer, tmp_path: Path
) -> None:
    fetch_videos(V2, v2_videos(*range(1, 16)), tmp_path)
    assert v2.content_requests("videos/001.zip")[-1].range is None
    kept = tmp_path / ".hub" / REVISION / "videos" / "001.zip"
    assert kept.read_bytes() == v2.files[V2.hub.repository, REVISION]["videos/001.zip"]
    v2.requests.clear()
    fetch_videos(V2, v2_videos(*range(1, 21)), tmp_path)
    assert len(files_under(tmp_path)) == 20
    assert v2.requests == []


def test_archives_are_deleted_without_keep_archives(v2: HubServer, tmp_path: Path) -> None:
    fetch_videos(V2, v2_videos(*range(1, 21)), tmp_path, keep_archives=False)
    assert list(tmp_path.rglob("*.zip")) == []
    assert len(files_under(tmp_path)) == 20


def test_a_second_run_sends_no_request(v1: HubServer, tmp_path: Path) -> None:
    assert fetch_videos(V1, v1_videos()[:3], tmp_path) == {}
    v1.requests.clear()
    assert fetch_videos(V1, v1_videos()[:3], tmp_path) == {}
    assert v1.requests == []


def test_an_incomplete_file_is_unzipped_again(v2: HubServer, tmp_path: Path) -> None:
    fetch_videos(V2, v2_videos(1, 2), tmp_path)
    cut, kept = tmp_path / "videos" / "001.mp4", tmp_path / "videos" / "002.mp4"
    data, written_at = cut.read_bytes(), kept.stat().st_mtime_ns
    cut.write_bytes(data[:100])
    fetch_videos(V2, v2_videos(1, 2), tmp_path)
    assert cut.read_bytes() == data
    assert kept.stat().st_mtime_ns == written_at


def test_progress_counts_all_videos(v2: HubServer, tmp_path: Path) -> None:
    reports: list[tuple[int, int]] = []
    fetch_videos(
        V2,
        v2_videos(1, 21, 22, 23),
        tmp_path,
        lambda done, total: reports.append((done, total)),
    )
    assert reports == [(number, 4) for number in range(5)]


def test_an_interrupted_range_request_is_repeated(v2: HubServer, tmp_path: Path) -> None:
    v2.cut_after["videos/001.zip"] = [10]
    assert fetch_videos(V2, v2_videos(1), tmp_path) == {}


def test_a_missing_archive_costs_only_its_videos(v2: HubServer, tmp_path: Path) -> None:
    del v2.files[V2.hub.repository, REVISION]["videos/002.zip"]
    problems = fetch_videos(V2, v2_videos(1, 21), tmp_path)
    assert problems.keys() == {"021"}
    assert "video 021" in problems["021"]
    missing = "videos/002.zip is not in MME-Benchmarks/Video-MME-v2 at 0123456789ab"
    assert missing in problems["021"]
    assert files_under(tmp_path) == ["videos/001.mp4"]


def test_a_video_that_is_in_no_archive_is_reported(v2: HubServer, tmp_path: Path) -> None:
    publish_archive(v2, "videos/001.zip", {"001.mp4": b"video"})
    problems = fetch_videos(V2, v2_videos(1, 2, 801), tmp_path)
    assert problems.keys() == {"002", "801"}
    for video_id, problem in problems.items():
        assert f"contains {video_id}.mp4" in problem


def test_a_damaged_member_costs_only_its_video(v2: HubServer, tmp_path: Path) -> None:
    data = bytearray(zip_bytes({f"{number:03d}.mp4": bytes(5000) for number in range(1, 21)}))
    data[60] ^= 1
    v2.files[V2.hub.repository, REVISION]["videos/001.zip"] = bytes(data)
    problems = fetch_videos(V2, v2_videos(1, 2), tmp_path)
    assert problems.keys() == {"001"}
    assert "member 001.mp4: damaged" in problems["001"]
    assert files_under(tmp_path) == ["videos/002.mp4"]


def test_a_malicious_archive_costs_only_its_videos_and_writes_nothing(
    v2: HubServer, tmp_path: Path
) -> None:
    publish_archive(v2, "videos/001.zip", {"001.mp4": b"video", "../../../../outside.mp4": b"bad"})
    media = tmp_path / "deep" / "media"
    problems = fetch_videos(V2, v2_videos(1, 21), media)
    assert problems.keys() == {"001"}
    assert "its name leads out of the folder" in problems["001"]
    assert files_under(tmp_path) == ["deep/media/videos/021.mp4"]


def test_a_whole_archive_with_a_wrong_checksum_costs_only_its_videos(
    v2: HubServer, tmp_path: Path
) -> None:
    fetch_videos(V2, v2_videos(1), tmp_path)
    good = v2.files[V2.hub.repository, REVISION]["videos/001.zip"]
    v2.altered["videos/001.zip"] = good[:200] + b"\0" + good[201:]
    problems = fetch_videos(V2, v2_videos(*range(1, 22)), tmp_path)
    assert len(problems) == 19
    assert all("sha256" in problem for problem in problems.values())
    assert files_under(tmp_path) == ["videos/001.mp4", "videos/021.mp4"]


def test_the_error_names_a_server_without_ranges(v2: HubServer, tmp_path: Path) -> None:
    v2.ignores_ranges = True
    problems = fetch_videos(V2, v2_videos(1), tmp_path)
    assert "must support HTTP ranges" in problems["001"]


def test_a_full_disk_is_reported_before_any_download(
    v2: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Creating a small disk needs root, so the number of free bytes is faked.
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(StorageError, match=r"need 0\.0 GB .* free some space"):
        fetch_videos(V2, v2_videos(*range(1, 21)), tmp_path)
    assert files_under(tmp_path) == []
    assert None not in [asked.range for asked in v2.content_requests("videos/001.zip")]


def test_the_error_names_a_folder_that_cannot_be_created(v2: HubServer, tmp_path: Path) -> None:
    (tmp_path / "media").write_text("a file, not a folder")
    with pytest.raises(StorageError, match=r"media.*cannot write .*choose another data folder"):
        fetch_videos(V2, v2_videos(1), tmp_path / "media")


def test_a_fetch_says_that_it_waits_for_another_fetch(
    v2: HubServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ThreadPoolExecutor(1) as pool:
        with FileLock(tmp_path / ".fetch.lock"):
            waiting = pool.submit(fetch_videos, V2, v2_videos(1), tmp_path)
            while f"which is fetching files into {tmp_path}" not in caplog.text:
                assert not wait([waiting], timeout=0.05).done
        assert waiting.result() == {}


def test_two_concurrent_calls_download_an_archive_once(v2: HubServer, tmp_path: Path) -> None:
    requested = v2_videos(*range(1, 21))
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: fetch_videos(V2, requested, tmp_path), range(2)))
    assert results == [{}, {}]
    assert len(files_under(tmp_path)) == 20
    assert [a.range for a in v2.content_requests("videos/001.zip")].count(None) == 1
