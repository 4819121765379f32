"""The keys of stored answers: with another key, every question is asked, and paid for, again.

`tests/golden/request_fingerprints.json` has the keys in existing journals. A name in the code or
in a configuration may change; a key never does.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from tests.support.made_up_requests import prompt, question, videos
from tests.support.paths import GOLDEN
from videomme_pipeline.benchmarks.question import Duration
from videomme_pipeline.demo.embedded.identity import embedded_identity
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.frames.cache import ShownFrame
from videomme_pipeline.frames.sampling_names import parse_sampling
from videomme_pipeline.judge.judge import Judge, JudgeSpec, judge_requests
from videomme_pipeline.models.catalog import BUILT_IN, Catalog, build_model
from videomme_pipeline.models.endpoint.endpoints import ENGINES, PROFILES, FramesAs
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.spec import ModelSpec
from videomme_pipeline.models.video_llm import Generation
from videomme_pipeline.project.answers.asking import frame_digest
from videomme_pipeline.prompts.render import Template
from videomme_pipeline.responses.requests import RequestPlan, VideoRequests, planned_requests
from videomme_pipeline.scoring.readers.read_answer import ReaderName

STORED: Mapping[str, Any] = json.loads((GOLDEN / "request_fingerprints.json").read_text("utf-8"))
PLAN = RequestPlan(evaluation="any")
EVERY_SETTING = Generation(
    temperature=0.7,
    top_p=0.9,
    max_tokens=None,
    seed=3,
    reasoning_effort="low",
    constrain_answer=True,
)
SHOWN = ShownFrame(digest="0123456789abcdef01234567", pts_seconds=12.5, index=375)
SAMPLINGS = (
    "uniform_n-8-endpoints",
    "qwen3_vl-2-max-16",
    "qwen3_vl-1.patches-32-video-min-4096-max-300000",
    "uniform_n-8.frames_by_duration-16-_-64",
)


NUMBERS = {
    ("vllm", FramesAs.FRAME_SEQUENCE): 1,
    ("vllm", FramesAs.VIDEO_FILE): 3,
}
"""The numbers in the names of entries. The stored fingerprints have these names."""


def entries() -> dict[str, dict[str, Any]]:
    """Entries of `models.yaml`: each way to send frames with each profile, and every other key."""
    models: dict[str, dict[str, Any]] = {
        f"{profile}-{NUMBERS.get((profile, way), 0)}": {
            "base_url": "http://localhost:1/v1",
            "profile": profile,
            "model": "qwen3-vl-8b",
            "frames_as": way.value,
            "shared_folder": "frames",
        }
        for profile, abilities in PROFILES.items()
        for way in abilities.frames_as
    }
    models |= {
        f"engine-{engine}": {
            "serve": {
                "engine": engine,
                "weights": "/weights",
                "revision": "main",
                "gpus_per_replica": 2,
                "args": {"max-model-len": 32768},
            }
        }
        for engine in ENGINES
    }
    models["every-key"] = {
        "base_url": "http://localhost:1/v1",
        "profile": "vllm",
        "revision": "main",
        "audio": True,
        "image_detail": "low",
        "extra_body": {"top_k": 1},
    }
    return models | {"constant": {"kind": "constant", "letter": "B"}}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    path = tmp_path_factory.mktemp("models") / "models.yaml"
    path.write_text(yaml.safe_dump(entries()))
    catalog = Catalog.read(path)
    assert not catalog.problems
    return catalog


def keys_of(
    identity: Mapping[str, object], plan: RequestPlan = PLAN, video: VideoRequests | None = None
) -> list[str]:
    video = video or videos(1, 1)[0]
    return [planned.fingerprint for planned in planned_requests(video, identity, plan)]


def keys_by_model(catalog: Catalog) -> Iterator[tuple[str, list[str]]]:
    """The requests of each model, and those of the same model at a later server."""
    for spec in (*catalog.models, *BUILT_IN.values()):
        yield spec.name, keys_of(build_model(spec, {}).identity)
        if isinstance(spec, EndpointSpec):
            yield f"{spec.name} at a later server", keys_of(spec.with_server("0123").identity)
    packages = {"ocr": "rapidocr 3.4.3, onnxruntime 1.23.2", "engine": "xllamacpp 0.2.9"}
    yield "embedded", keys_of({**embedded_identity(), **packages, "version": 1})


def keys_by_setting(identity: Mapping[str, object]) -> Iterator[tuple[str, list[str]]]:
    """The requests of one model with other settings, prompts, questions and frames."""
    (video,) = videos(1, 2)
    yield "every setting", keys_of(identity, replace(PLAN, generation=EVERY_SETTING))
    yield "repeats", keys_of(identity, replace(PLAN, repeats=3), video)
    yield "nightly run", keys_of(identity, replace(PLAN, observation="2026-11-21"))
    yield "no frames", keys_of(identity, video=replace(video, frame_digests=()))
    yield "no frames found", keys_of(identity, video=replace(video, error="no frames"))
    item = question(1, 1)
    letterless = replace(item, options=("One.", "Two."))
    texts = replace(
        prompt(item), system="Answer.", before_frames="0 s", after_frame=("1 s", "A line.")
    )
    other_questions = replace(video, questions=[(letterless, prompt(letterless)), (item, texts)])
    yield "other questions and prompts", keys_of(identity, video=other_questions)


def digests(model: ModelSpec) -> Iterator[tuple[str, str]]:
    """One frame as a model gets it, with each sampling and duration."""
    for number, name in enumerate(SAMPLINGS):
        evaluation = Evaluation(
            name="any",
            benchmark="videomme",
            model=model,
            sampling=parse_sampling(name),
            alignment=None,
            template=Template.model_validate("contract_v1"),
            reader=ReaderName.CAREFUL,
            generation=Generation(),
            repeats=1,
        )
        for duration in (None, Duration.SHORT, Duration.MEDIUM):
            yield (
                f"sampling {number} {duration}",
                frame_digest(SHOWN, evaluation, "c0ffee", duration),
            )


def test_requests_of_every_model_keep_their_keys(catalog: Catalog) -> None:
    assert dict(keys_by_model(catalog)) == STORED["models"]


def test_requests_with_every_setting_keep_their_keys(catalog: Catalog) -> None:
    identity = catalog.find("vllm-1").identity
    assert dict(keys_by_setting(identity)) == STORED["settings"]


def test_frames_in_requests_keep_their_digests(catalog: Catalog) -> None:
    models = [catalog.find(name) for name in ("vllm-0", "vllm-1", "vllm-3", "every-key")]
    assert {model.name: dict(digests(model)) for model in models} == STORED["frames"]


def test_requests_of_a_judge_keep_their_keys(catalog: Catalog) -> None:
    judge = Judge.of(JudgeSpec(model="vllm-0", generation=Generation(seed=1)), catalog)
    ((key, _),) = judge_requests(judge, [(question(1, 1), "She moves through the water.")])
    assert key == STORED["judge"]


def test_the_servers_of_a_model_are_found_under_the_same_name(catalog: Catalog) -> None:
    """A later server is part of the keys, so a lost record would ask every question again."""
    names = {spec.name: spec.fingerprint for spec in catalog.models}
    assert names == STORED["server_records"]
