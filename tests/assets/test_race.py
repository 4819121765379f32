"""Races of two evaluations on real runs: who is asked what, and when a race stops."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from tests.support.made_up_endpoint import serve
from tests.support.projects import WriteProject
from tests.support.published_data import v1_rows
from videomme_pipeline.assets.race import RaceConfig, RaceLook, race_here, race_job
from videomme_pipeline.errors import ConfigurationError, ScoringError
from videomme_pipeline.project.project import Project
from videomme_pipeline.scoring.statistics.gate import Verdict
from videomme_pipeline.scoring.statistics.race import Stop
from videomme_pipeline.scoring.verdicts import RecordedLook
from videomme_pipeline.storage.tables import read_files

VIDEOS = [f"{number:03d}" for number in range(1, 43)]
ANSWERS = {row["question_id"]: row["answer"] for row in v1_rows()}

WriteRace = Callable[..., Project]


class Endpoint:
    """A model that answers every n-th question wrong, and counts the questions."""

    def __init__(self, wrong_every: int | None = None) -> None:
        self.asked: Counter[str] = Counter()
        self._wrong_every = wrong_every
        self.url = serve(self._answer)

    def _answer(self, messages: list[dict[str, Any]]) -> str:
        [question_id] = re.findall(r"What happens in (\d+-\d)\?", str(messages))
        answer = ANSWERS[question_id]
        self.asked[question_id] += 1
        number = list(ANSWERS).index(question_id)
        wrong = self._wrong_every is not None and number % self._wrong_every == 0
        return "BADC"["ABCD".index(answer)] if wrong else answer


@pytest.fixture
def write_race(root: Path, write_project: WriteProject) -> WriteRace:
    """Return a function that opens a project with one blind evaluation per endpoint."""

    def write(price: float = 0.0, **endpoints: Endpoint) -> Project:
        folder = root / "configuration"
        folder.mkdir(exist_ok=True)
        models = {
            name: {
                "base_url": endpoint.url,
                "prices": {"input": price, "output": price},
                "limits": {"concurrency": 4},
            }
            for name, endpoint in endpoints.items()
        }
        (folder / "models.yaml").write_text(yaml.safe_dump(models))
        evaluations = {name: {"benchmark": "videomme", "model": name} for name in endpoints}
        return write_project(evaluations, videos=VIDEOS)

    return write


def raced(
    project: Project, instance: dg.DagsterInstance, candidate: str = "bad", **settings: Any
) -> list[RaceLook]:
    looks: list[RaceLook] = []
    config = RaceConfig(baseline="good", candidate=candidate, **settings)
    race_here(project, instance, config, looks.append)
    last = read_files(project.store.newest_files("races"), RecordedLook)[-1]
    assert (last.videos, last.stop) == (looks[-1].look.videos, looks[-1].stop)
    return looks


@pytest.mark.slow
def test_a_race_stops_at_the_first_look_that_decides_and_asks_nothing_twice(
    write_race: WriteRace, instance: dg.DagsterInstance
) -> None:
    good, bad = Endpoint(), Endpoint(wrong_every=2)
    project = write_race(good=good, bad=bad)
    looks = raced(project, instance)
    assert (looks[-1].gate.verdict, looks[-1].stop) == (Verdict.WORSE, Stop.DECIDED)
    assert looks[-1].look.videos < len(VIDEOS)
    for endpoint in (good, bad):
        assert endpoint.asked.total() == looks[-1].gate.questions == 3 * looks[-1].look.videos
        assert set(endpoint.asked.values()) == {1}
    assert len(instance.get_runs()) == 1, "a race is one run"
    assert raced(project, instance) == looks
    assert good.asked.total() + bad.asked.total() == 2 * looks[-1].gate.questions
    assert not project.store.names("videomme", "scores").texts


@pytest.mark.slow
def test_the_job_runs_a_race_and_offers_the_names_of_evaluations(
    write_race: WriteRace, instance: dg.DagsterInstance
) -> None:
    good, bad = Endpoint(), Endpoint(wrong_every=2)
    project = write_race(good=good, bad=bad)
    race_job(project)
    job = race_job(project)

    def config(baseline: str) -> dict[str, Any]:
        return {"baseline": baseline, "candidate": "bad"}

    result = job.execute_in_process(config("good"), instance=instance)
    assert result.success
    (output,) = result.filter_events(lambda event: event.is_successful_output)
    metadata = output.step_output_data.metadata
    assert metadata["verdict"].value == "worse"
    assert metadata["questions"].value == good.asked.total() == bad.asked.total()
    assert job.config_mapping is not None
    form: Any = job.config_mapping.config_schema.as_field().config_type
    title = "The evaluation to compare with."
    assert form.fields["baseline"].description == f"{title} One of bad, good."
    with pytest.raises(dg.DagsterInvalidConfigError, match="goood"):
        job.execute_in_process(config("goood"), instance=instance)


@pytest.mark.slow
def test_equal_models_are_asked_about_all_videos_and_are_equivalent(
    write_race: WriteRace, instance: dg.DagsterInstance
) -> None:
    project = write_race(good=Endpoint(wrong_every=5), bad=Endpoint(wrong_every=5))
    looks = raced(project, instance, margin=12)
    assert looks[-1].gate.verdict is Verdict.EQUIVALENT
    assert [look.stop for look in looks[:-1]] == [None] * (len(looks) - 1)


@pytest.mark.slow
def test_limits_stop_a_race_between_looks(
    write_race: WriteRace, instance: dg.DagsterInstance
) -> None:
    good, bad = Endpoint(wrong_every=5), Endpoint(wrong_every=5)
    project = write_race(good=good, bad=bad)
    looks = raced(project, instance, max_questions=40)
    assert (looks[-1].stop, looks[-1].gate) == (Stop.BUDGET, looks[-2].gate)
    assert good.asked.total() == bad.asked.total() == looks[-1].gate.questions <= 40
    with pytest.raises(ScoringError, match="the first look needs 18 questions"):
        raced(project, instance, max_questions=15)


def test_evaluations_that_cannot_be_compared_are_refused_before_a_request(
    write_race: WriteRace, write_project: WriteProject, instance: dg.DagsterInstance
) -> None:
    good = Endpoint()
    write_race(good=good, bad=good)
    base: dict[str, object] = {"benchmark": "videomme", "model": "good"}
    others = {
        "part": base | {"duration": "short"},
        "judged": base | {"judge": {"model": "bad"}},
        "subtitled": base | {"subtitles": "full", "sampling": "uniform_n-4"},
    }
    project = write_project({"good": base} | others, videos=VIDEOS)
    for name, reason in [
        ("part", "do not have the same questions"),
        ("judged", "asks no judge"),
        ("subtitled", "several causes"),
        ("goood", "did you mean `good`"),
    ]:
        with pytest.raises(ConfigurationError, match=reason):
            raced(project, instance, name)
    assert not good.asked


@pytest.mark.slow
def test_a_dead_endpoint_ends_the_race(write_race: WriteRace, instance: dg.DagsterInstance) -> None:
    good, bad = Endpoint(), Endpoint()
    bad.url = "http://127.0.0.1:9/v1"
    with pytest.raises(ScoringError, match="no question was answered in both"):
        raced(write_race(good=good, bad=bad), instance)
