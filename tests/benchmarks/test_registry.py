"""Declarations of benchmarks: the registry, and errors in a declaration."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.packages import write_package
from tests.support.registered import registered
from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.facets import Facet, Facets, Measure
from videomme_pipeline.benchmarks.question import Letter, Question
from videomme_pipeline.benchmarks.registry import find_benchmark, register, registered_benchmarks
from videomme_pipeline.errors import AnnotationError, ConfigurationError
from videomme_pipeline.evaluation.folder import read_configuration
from videomme_pipeline.rows import arrow_schema
from videomme_pipeline.scoring.scored_question import ScoredQuestion

OWN = Benchmark(
    name="own",
    title="Own",
    source=find_benchmark("videomme").source,
    facets=(Facet(column="room", title="Room"), Facet(column="duration", title="Duration")),
)


@pytest.fixture
def own() -> Iterator[Benchmark]:
    with registered(OWN):
        yield OWN


def names() -> tuple[str, ...]:
    return tuple(benchmark.name for benchmark in registered_benchmarks())


def test_built_in_benchmarks_are_registered() -> None:
    assert set(names()) >= {"videomme", "videomme_v2"}


def test_smoke_benchmarks_are_loaded_by_their_entry_points() -> None:
    code = (
        "from videomme_pipeline.benchmarks import registry; import sys; "
        "print(any('.demo' in name for name in sys.modules), "
        "registry.find_benchmark('smoke').is_public)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "False True\n"


def test_an_unknown_name_is_reported_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="no benchmark `videome`, did you mean `videomme`"):
        find_benchmark("videome")


def test_registering_a_benchmark_changes_no_schema() -> None:
    before = [arrow_schema(table) for table in (Question, ScoredQuestion)]
    with registered(OWN):
        assert find_benchmark("own") is OWN
        assert [arrow_schema(table) for table in (Question, ScoredQuestion)] == before


def test_two_benchmarks_cannot_have_one_name(own: Benchmark) -> None:
    assert register(OWN) is own
    with pytest.raises(ValueError, match="another benchmark called own"):
        register(OWN.model_copy(update={"title": "Other"}))


def test_a_declaration_names_only_declared_facets() -> None:
    with pytest.raises(ValueError, match="facet 'task' is not declared"):
        Benchmark(**dict(OWN) | {"mean_of": "task"})
    with pytest.raises(ValueError, match="facet 'domain' is not declared"):
        Benchmark(**dict(OWN) | {"crossings": (("room", "domain"),)})


def test_the_headline_score_of_groups_is_not_a_mean_over_a_facet() -> None:
    with pytest.raises(ValueError, match="remove `mean_of`"):
        Benchmark(**dict(find_benchmark("videomme_v2")) | {"name": "own", "mean_of": "level"})


def test_a_column_is_a_plain_name() -> None:
    with pytest.raises(ValueError, match="lower-case letters"):
        Facet(column="Sub Category", title="Sub-category")


def test_a_title_of_values_replaces_only_the_literal_braces() -> None:
    facet = Facet(column="level", title="Level", value_title="{0!r:>9999999999} {} {x}")
    assert facet.show(2) == "{0!r:>9999999999} 2 {x}"


def test_breakdowns_are_named_after_the_facets() -> None:
    assert find_benchmark("videomme").breakdowns(Measure.ACCURACY) == {
        "overall": (),
        "by_duration": ("duration",),
        "by_domain": ("domain",),
        "by_sub_category": ("sub_category",),
        "by_task_type": ("task_type",),
        "by_skill": ("skill",),
        "by_duration_and_domain": ("duration", "domain"),
        "by_duration_and_sub_category": ("duration", "sub_category"),
        "by_duration_and_task_type": ("duration", "task_type"),
    }
    assert list(find_benchmark("videomme_v2").breakdowns(Measure.GROUP_SCORE)) == [
        "group_score_overall",
        "group_score_by_level",
        "group_score_by_second_head",
        "group_score_by_third_head",
        "group_score_by_group_type",
    ]


def test_a_facet_without_a_value_is_absent() -> None:
    assert Facets({"domain": None, "level": 2}) == Facets({"level": 2})
    assert hash(Facets({"domain": None, "level": 2})) == hash(Facets({"level": 2}))


def test_the_letters_of_a_benchmark_begin_with_a_and_have_no_gaps() -> None:
    with pytest.raises(ValueError, match="`letters` must be A, B, C … in order"):
        Benchmark(**dict(OWN) | {"letters": (Letter.B, Letter.C)})
    assert Benchmark(**dict(OWN) | {"letters": tuple(Letter)}).letters[-1] == "N"


@pytest.mark.parametrize(
    ("options", "answer", "words"),
    [
        ("ABCDE", "A", r"own, question 001-1: 5 options, .* declares 4 letters \(A, B, C, D\)"),
        ("ABC", "D", "own, question 001-1: the answer is D, but the options are A, B, C;"),
    ],
)
def test_options_and_answers_need_declared_letters(options: str, answer: str, words: str) -> None:
    question = Question(
        benchmark="own",
        question_id="001-1",
        video_id="001",
        youtube_id=None,
        url=None,
        question="Which one?",
        options=tuple(f"{letter}. Thing." for letter in options),
        answer=Letter(answer),
    )
    with pytest.raises(AnnotationError, match=words):
        OWN.check_letters([question])
    OWN.check_letters([replace(question, options=question.options[:4], answer=Letter.A)])


# Benchmarks of installed packages

MODULE = """\
from videomme_pipeline.benchmarks.benchmark import Benchmark
from videomme_pipeline.benchmarks.facets import Facet

def never_opened(benchmark, spec, folder):
    raise NotImplementedError

SHED = Benchmark(
    name="shed", title="Shed", source=never_opened, facets=(Facet(column="tool", title="Tool"),)
)
"""

ENTRY_POINTS = """\
[videomme_pipeline.benchmarks]
shed = videomme_shed:SHED
barn = videomme_shed:SHED
loft = videomme_shed:LOFT
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that declares a benchmark is installed, as `pip install --target` leaves it."""
    write_package(tmp_path, "videomme_shed", MODULE, ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    with registered():
        yield
    sys.modules.pop("videomme_shed", None)


@pytest.mark.usefixtures("installed")
def test_a_benchmark_of_an_installed_package_is_found_by_name(tmp_path: Path) -> None:
    assert "shed" not in names()
    configuration = tmp_path / "configuration"
    (configuration / "evaluations").mkdir(parents=True)
    (configuration / "benchmarks.yaml").write_text("shed: {}\n")
    (configuration / "evaluations" / "dark.yaml").write_text("{benchmark: shed, model: random}\n")
    assert read_configuration(configuration).evaluation("dark").benchmark == "shed"
    assert find_benchmark("shed").title == "Shed"
    assert "shed" in names()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("shet", "there is no benchmark `shet`, did you mean `shed`"),
        ("barn", "benchmark barn of the package videomme-shed is .*, not a Benchmark with this"),
        ("loft", "benchmark loft needs the package videomme-shed, which cannot be loaded"),
    ],
)
def test_the_error_names_a_benchmark_that_cannot_be_used(name: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        find_benchmark(name)
