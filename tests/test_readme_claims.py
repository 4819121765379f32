"""Each section of the README with claims names the tests and measurements that prove them."""

import re

import pytest

from tests.support.paths import ROOT

SECTIONS = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## ")[1:]
WITHOUT_CLAIMS = {"More"}
PROOF = re.compile(r"<!-- proof: (.*) -->")


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.partition("\n")[0])
def test_every_section_names_proofs_that_exist(section: str) -> None:
    title = section.partition("\n")[0]
    proofs = [path for line in PROOF.findall(section) for path in line.split()]
    assert proofs or title in WITHOUT_CLAIMS
    missing = [path for path in proofs if not (ROOT / path).is_file()]
    assert not missing
    others = [path for path in proofs if not re.match(r"tests/.*test_\w+\.py$|perf/\w+\.py$", path)]
    assert not others
