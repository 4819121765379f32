"""Models by name: `models.yaml`, built-in models, and the identity of a model."""

import traceback
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.support.paths import ROOT
from videomme_pipeline.errors import ConfigurationError, ModelError
from videomme_pipeline.models.catalog import Baseline, Catalog, build_model
from videomme_pipeline.models.endpoint.client import OpenAICompatibleModel
from videomme_pipeline.models.endpoint.spec import EndpointSpec
from videomme_pipeline.models.spec import Limits, Schedule


def written(folder: Path, text: str) -> Path:
    path = folder / "models.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_models_yaml_of_the_repository_is_valid() -> None:
    catalog = Catalog.read(ROOT / "assets" / "models.yaml")
    endpoints = [spec for spec in catalog.models if isinstance(spec, EndpointSpec)]
    assert len(endpoints) == len(catalog.models)
    assert {spec.profile for spec in endpoints} >= {
        "openai",
        "gemini",
        "vllm",
        "sglang",
        "ollama",
    }
    for spec in endpoints:
        key = {spec.api_key_env or "OPENAI_API_KEY": "key"}
        assert build_model(spec, key).name == spec.name


def test_an_entry_is_read_with_its_name(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "mine:\n"
        "  base_url: http://localhost:8000/v1\n"
        "  profile: vllm\n"
        "  limits: {concurrency: 4}\n",
    )
    spec = Catalog.read(path).find("mine")
    assert (spec.name, spec.limits.concurrency) == ("mine", 4)
    assert isinstance(build_model(spec, {}), OpenAICompatibleModel)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mine:\n  base_ulr: x\n", "mine.*`base_ulr`.*`base_url`"),
        ("mine:\n  limits: {concurency: 1}\n", "`limits.concurency`.*`concurrency`"),
        ("mine:\n  profile: vlm\n", "mine.*profile.*'vlm'"),
        ("mine: http://x\n", "mine.*base_url"),
        ("random:\n  model: x\n", "built in"),
        ("mine:\n  frames_as: frame_sequence\n", "generic does not take frames as frame_sequence"),
    ],
)
def test_the_error_for_a_wrong_entry_names_the_right_key_or_value(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Catalog.read(written(tmp_path, text)).find(text.partition(":")[0])


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{base_url: 'http://me:canary@host/v1'}", "`base_url`.*user name.*`api_key_env`"),
        ("{base_url: 'http://canary@host/v1'}", "`base_url`.*user name"),
        ("{base_url: 'http://host/v1?key=canary'}", "`base_url`.*query"),
        ("{base_url: 'http://host/v1#canary'}", "`base_url`.*fragment"),
        ("{base_url: 'me:canary@host/v1'}", "`base_url`.*http://"),
        ("{base_url: 'http://[canary/v1'}", "`base_url`.*not a URL"),
        ("{base_url: 'http://host/v1', api_key_env: sk-canary}", "`api_key_env`.*MY_KEY"),
        ("http://me:canary@host/v1", "found a str"),
    ],
)
def test_a_secret_in_an_entry_is_rejected_and_not_shown(
    tmp_path: Path, entry: str, words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words) as raised:
        Catalog.read(written(tmp_path, f"mine: {entry}\n")).find("mine")
    assert "canary" not in "".join(traceback.format_exception(raised.value))


def test_a_wrong_entry_does_not_affect_the_other_models(tmp_path: Path) -> None:
    catalog = Catalog.read(written(tmp_path, "wrong: {profil: vllm}\nright: {profile: vllm}\n"))
    assert catalog.find("right").name == "right"
    assert list(catalog.problems) == ["wrong"]


def test_a_spec_in_python_does_not_show_a_secret_either() -> None:
    with pytest.raises(ValidationError) as raised:
        EndpointSpec(name="mine", base_url="http://me:canary@host/v1")
    assert "canary" not in str(raised.value)


def test_the_error_for_an_unknown_model_names_the_nearest_one() -> None:
    catalog = Catalog(models=(EndpointSpec(name="qwen-vl"),))
    with pytest.raises(ModelError, match="did you mean `qwen-vl`"):
        catalog.find("qwen_vl")
    with pytest.raises(ModelError, match="known: qwen-vl, embedded, random"):
        catalog.find("zzzz")


def test_built_in_models_need_no_entry() -> None:
    catalog = Catalog()
    assert catalog.find("embedded").kind == "embedded"
    for name in ("random", "constant-C", "longest-option"):
        model = build_model(catalog.find(name), {})
        assert isinstance(model, Baseline)
        assert model.spec == catalog.find(name)
    assert not any(catalog.find(name).costs_money for name in catalog.names)


def test_the_error_for_a_missing_key_names_its_variable() -> None:
    model = EndpointSpec(name="m", base_url="http://x/v1", api_key_env="MY_KEY")
    with pytest.raises(ModelError, match="MY_KEY is not set"):
        build_model(model, {})
    with pytest.raises(ModelError, match="MY_KEY contains a line break") as raised:
        build_model(model, {"MY_KEY": "canary\nX: y"})
    assert "canary" not in str(raised.value)
    with pytest.raises(ModelError, match="OPENAI_API_KEY"):
        build_model(EndpointSpec(name="gpt-5"), {})
    assert build_model(EndpointSpec(name="m", base_url="http://x/v1"), {}).name == "m"


def test_address_and_limits_are_not_part_of_the_identity() -> None:
    base = EndpointSpec(name="m", base_url="http://a/v1", profile="vllm")
    same = base.model_copy(
        update={
            "base_url": "http://b/v1",
            "limits": Limits(concurrency=1),
            "api_key_env": "K",
            "schedule": Schedule.LEADER_FOLLOWER,
        }
    )
    assert same.fingerprint == base.fingerprint
    others = [
        base.model_copy(update=changed)
        for changed in (
            {"name": "n"},
            {"model": "other"},
            {"revision": "fp8"},
            {"extra_body": {"top_k": 1}},
        )
    ]
    assert len({spec.fingerprint for spec in [base, *others]}) == 5
