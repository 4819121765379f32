"""`videomme doctor MODEL --probe`: what arrives at a real local server."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.support.cli import use, videomme
from tests.support.model_server import Fault, ModelServer, always
from tests.support.video_requests import frames_of, rejection
from videomme_pipeline.errors import ModelError, Status
from videomme_pipeline.models.catalog import build_model
from videomme_pipeline.models.endpoint.endpoints import FramesAs
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.endpoint_probe import probe_once

Probe = Callable[..., dict[str, tuple[str, str]]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use(monkeypatch, tmp_path)
    (tmp_path / "configuration").mkdir()
    (tmp_path / "configuration" / "benchmarks.yaml").write_text("smoke:\n")
    return tmp_path


@pytest.fixture
def probe(folder: Path) -> Probe:
    """Status and summary of each check of a probed server, by check."""

    def probe(server: ModelServer, **entry: object) -> dict[str, tuple[str, str]]:
        entries = {"served": {"base_url": server.base_url, **entry}}
        (folder / "configuration" / "models.yaml").write_text(yaml.safe_dump(entries))
        ended = videomme("doctor", "served", "--probe", "--json")
        findings = {item["check"]: (item["status"], item["summary"]) for item in ended.json}
        assert ended.status == ("error" in {status for status, _ in findings.values()})
        return findings

    return probe


def test_a_model_that_sees_and_reads_all_pictures_passes(probe: Probe) -> None:
    with ModelServer(answer=lambda _: "40") as server:
        findings = probe(server, profile="vllm")
        assert server.request_count == 4
    assert {status for status, _ in findings.values()} <= {"ok", "warning"}
    assert "4 pictures of 224 × 224 pixels add 340 prompt tokens" in findings["pictures"][1]
    assert findings["number of pictures"] == ("ok", "all 40 of 40 arrive")
    assert findings["answer"][0] == "ok"


def test_dropped_pictures_are_counted(probe: Probe) -> None:
    with ModelServer(image_limit=32) as server:
        findings = probe(server)
    status, message = findings["number of pictures"]
    assert status == "error"
    assert "about 32 of 40 pictures arrive" in message


def test_pictures_that_are_ignored_are_reported(probe: Probe) -> None:
    with ModelServer(image_limit=0) as server:
        findings = probe(server)
    assert findings["pictures"][0] == "error"
    assert "does not see them" in findings["pictures"][1]


def test_a_model_without_vision_answers_only_text(probe: Probe) -> None:
    def refuse_pictures(_question: str, asked_before: int) -> Fault | None:
        return Fault.NO_VISION if asked_before else None

    with ModelServer(faults=refuse_pictures) as server:
        findings = probe(server)
    assert findings["text"][0] == "ok"
    assert findings["pictures"][0] == "error"
    assert "accepts no pictures" in findings["pictures"][1]


@pytest.mark.parametrize(("answer", "status"), [("41 seconds", "ok"), ("5", "warning")])
def test_times_of_a_video_are_asked_for(probe: Probe, answer: str, status: str) -> None:
    with ModelServer(answer=lambda _: answer) as server:
        findings = probe(server, profile="vllm", frames_as="frame_sequence")
        times = server.requests[-1].body["media_io_kwargs"]["video"]["frames_indices"]
    assert findings["times"][0] == status
    assert times[4] == 41 * 30


def test_the_frames_of_a_video_are_counted_for_each_sampling_of_the_evaluations(
    folder: Path, probe: Probe
) -> None:
    samplings = ["fps_based-4-max-8", "fps_based-4"]
    (folder / "configuration" / "evaluations").mkdir()
    for number, sampling in enumerate(samplings):
        values = {"benchmark": "smoke", "model": "served", "sampling": sampling}
        path = folder / "configuration" / "evaluations" / f"of_{number}.yaml"
        path.write_text(yaml.safe_dump(values))
    reports = {"/version": {"version": "0.32.0"}}
    with ModelServer(answer=lambda _: "41", reports=reports, image_limit=336) as server:
        findings = probe(server, profile="vllm", frames_as="video_file", tokens_per_frame=85)
        bodies = [item.body for item in server.requests]
    contents = [body["messages"][0]["content"] for body in bodies]
    videos = [
        body
        for body, content in zip(bodies, contents, strict=True)
        if not isinstance(content, str) and "video" in content[0]["type"]
    ]
    assert [frames_of(body) for body in videos] == [336] * 2
    assert [rejection(body) for body in videos] == [None] * 2
    assert [findings[f"frames of {sampling}"][0] for sampling in samplings] == ["error", "ok"]
    assert "about 336 of 8 arrive" in findings["frames of fps_based-4-max-8"][1]
    assert findings["times"][0] == "ok"


def test_every_endpoint_of_a_pool_is_probed(probe: Probe) -> None:
    reports = {"/version": {"version": "1"}}
    with ModelServer(reports=reports) as first, ModelServer(image_limit=32, reports=reports) as two:
        findings = probe(first, profile="vllm", base_url=[first.base_url, two.base_url])
        assert findings["number of pictures"][0] == "ok"
        status, message = findings[f"endpoint {two.base_url}: number of pictures"]
        assert status == "error"
        assert "about 32 of 40 pictures arrive" in message
        assert "version 1, model unknown" in findings["server"][1]
        two.image_limit = None
        two.reports = {"/version": {"version": "2"}}
        findings = probe(first, profile="vllm", base_url=[first.base_url, two.base_url])
        assert findings[f"endpoint {two.base_url}: number of pictures"][0] == "ok"
        assert "version 2 instead of 1" in findings["server"][1]


def test_an_address_without_a_model_is_one_sentence(folder: Path) -> None:
    with ModelServer(faults=always(Fault.WRONG_CONTENT_TYPE)) as page:
        entries = {"page": {"base_url": page.base_url}, "down": {"base_url": "http://127.0.0.1:9"}}
        (folder / "configuration" / "models.yaml").write_text(yaml.safe_dump(entries))
        of_page, of_port = [videomme("doctor", name, "--probe") for name in ("page", "down")]
    assert page.request_count == 1
    assert "an HTML page, not JSON" in of_page.err
    assert "is the server up" in of_port.err
    assert (of_page.status, of_port.status) == (1, 1)
    assert "Traceback" not in of_page.err + of_port.err


def test_a_single_request_has_one_attempt() -> None:
    with ModelServer(answer=lambda _: "1", reports={"/version": {"version": "0.32.0"}}) as server:
        model = EndpointSpec(name="served", base_url=server.base_url)
        finding = asyncio.run(probe_once(model, build_model(model)))
        assert (finding.status, server.request_count) == (Status.OK, 1)
        native = model.model_copy(update={"profile": "vllm", "frames_as": FramesAs.VIDEO_FILE})
        finding = asyncio.run(probe_once(native, build_model(native)))
        assert finding.summary == (
            "a video with 84 planned frames (fps_based-1) is answered with '1'"
        )
        assert frames_of(server.requests[-1].body) == 336
        two = ["uniform_n-8-endpoints", "qwen2_vl-1"]
        finding = asyncio.run(probe_once(native, build_model(native), two))
        assert all(f"({sampling}) is answered with" in finding.summary for sampling in two)
        with pytest.raises(ModelError, match="sampling keyframe-4"):
            asyncio.run(probe_once(native, build_model(native), [*two, "keyframe-4"]))
    with ModelServer(faults=always(Fault.NO_VISION)) as server:
        model = EndpointSpec(name="served", base_url=server.base_url)
        with pytest.raises(ModelError, match="accepts no pictures"):
            asyncio.run(probe_once(model, build_model(model)))
        assert server.request_count == 1
