"""Data versions of responses depend on the identity of the model."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.support.made_up_requests import question
from videomme_pipeline.demo.embedded import identity
from videomme_pipeline.errors import NotReadyError
from videomme_pipeline.evaluation.evaluation import Evaluation
from videomme_pipeline.evaluation.folder import read_configuration
from videomme_pipeline.project.project import open_project
from videomme_pipeline.project.state.versions import Versions

Write = Callable[[str], Evaluation]


@pytest.fixture
def evaluation(tmp_path: Path) -> Write:
    """Function that reads a blind evaluation of a model, as a new process would."""

    def evaluation(model: str) -> Evaluation:
        (tmp_path / "evaluations").mkdir(exist_ok=True)
        (tmp_path / "benchmarks.yaml").write_text("smoke:\n")
        entry = {"served": {"base_url": "http://127.0.0.1:8000/v1"}}
        (tmp_path / "models.yaml").write_text(yaml.safe_dump(entry))
        file = {"benchmark": "smoke", "model": model}
        (tmp_path / "evaluations" / "mine.yaml").write_text(yaml.safe_dump(file))
        return read_configuration(tmp_path).evaluation("mine")

    return evaluation


def versions(evaluation: Evaluation) -> tuple[str, str]:
    """The versions of the prompts and of the responses of one video."""
    current = Versions(
        questions={"001": [question(1, 1)]},
        samplings={},
        content_hash=lambda _: "content",
        subtitle_hash=lambda _: None,
        server_keys=lambda _: [None],
    )
    return current.prompts("001", evaluation), current.responses("001", evaluation)


@pytest.mark.parametrize("part", ["code", "weights", "rapidocr", "onnxruntime", "xllamacpp"])
def test_a_changed_embedded_model_makes_responses_stale_but_not_prompts(
    evaluation: Write, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts, responses = versions(evaluation("embedded"))
    if part == "code":
        monkeypatch.setattr(identity, "EMBEDDED_VERSION", 99)
    elif part == "weights":
        other = identity.embedded_identity("0" * 64)
        monkeypatch.setattr(identity, "embedded_identity", lambda: other)
    else:
        installed = identity.package_version
        monkeypatch.setattr(
            identity, "package_version", lambda name: "99.0" if name == part else installed(name)
        )
    changed = versions(evaluation("embedded"))
    assert changed[0] == prompts
    assert changed[1] != responses


def test_installed_packages_do_not_change_the_responses_of_an_endpoint(
    evaluation: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = versions(evaluation("served"))
    monkeypatch.setattr(identity, "EMBEDDED_VERSION", 99)
    monkeypatch.setattr(identity, "package_version", lambda _: "99.0")
    assert versions(evaluation("served")) == before


def test_a_video_that_was_never_read_raises_a_short_error_each_time(tmp_path: Path) -> None:
    (tmp_path / "benchmarks.yaml").write_text("smoke:\n")
    snapshot = open_project(tmp_path, str(tmp_path / "data")).benchmarks["smoke"].snapshot
    lengths = set()
    for _ in range(3):
        with pytest.raises(NotReadyError) as error:
            snapshot.content_hash("001")
        lengths.add(len(error.traceback))
    assert len(lengths) == 1
