"""The decision of a gate as Markdown and as JUnit XML."""

from collections.abc import Sequence
from xml.etree import ElementTree

from videomme_pipeline.errors import one_line, printable
from videomme_pipeline.reports.markdown import in_markdown
from videomme_pipeline.scoring.statistics.estimates import p_value_text
from videomme_pipeline.scoring.statistics.gate import Gate, GateCheck, Verdict
from videomme_pipeline.scoring.statistics.power import LEVEL

_RESULTS = {Verdict.WORSE: "failure", Verdict.UNDECIDED: "skipped"}


def markdown(gate: Gate, outcome: str) -> str:
    """A heading with the outcome, and a table with one line per check."""
    lines = [
        f"### {in_markdown(f'{gate.candidate} against {gate.baseline}')}: {outcome}",
        "",
        "| check | verdict | difference | 95% CI | p | n | videos |",
        "|---|---|---:|---:|---:|---:|---:|",
        *(
            f"| {in_markdown(check.name)} | {check.verdict} | {check.difference:+.1f} "
            f"| {interval(check)} | {p_value_text(check.p_value)} | {check.values:,} "
            f"| {check.clusters:,} |"
            for check in gate.checks
        ),
        "",
        summary(gate),
    ]
    return "\n".join(lines) + "\n"


def summary(gate: Gate) -> str:
    """Sentences with the margin, the compared questions and the detectable difference."""
    same = " All answers are the same." if gate.same_answers else ""
    return (
        f"Margin {gate.margin:g} points. {gate.compared:,} questions were compared; "
        f"{gate.failed:,} of {gate.questions:,} have no answer on one side.{same} "
        f"{detected_differences(gate.detectable, 'cases')}"
    )


def detected_differences(points: float | None, cases: str) -> str:
    """A sentence with the smallest difference that is detected with 80% power, if there is any."""
    if points is None:
        return "With so few videos, no difference can be significant."
    return f"Differences of {points:.1f} points or more are detected in 80% of {cases}."


def sentence(check: GateCheck) -> str:
    """ "accuracy: worse, -3.2 points (95% CI -5.0 to -1.4, p 0.0012, 300 videos)"."""
    return f"{one_line(check.name)}: {check.verdict}, {tested(check)}"


def tested(check: GateCheck) -> str:
    """The difference with its interval and its test, and which of the two decides."""
    text = (
        f"{check.difference:+.1f} points (95% CI {interval(check)}, "
        f"p {p_value_text(check.p_value)}, {check.clusters:,} videos)"
    )
    if check.low is None or check.high is None:
        return text
    if (check.low > 0 or check.high < 0) == (check.p_value <= LEVEL):
        return text
    return f"{text}; the test (p) decides, because the interval is an approximation"


def interval(check: GateCheck) -> str:
    """The interval of a check: "-5.0 to -1.4", or "undefined" for a single video."""
    if check.low is None or check.high is None:
        return "undefined"
    return f"{check.low:+.1f} to {check.high:+.1f}"


def junit(gate: Gate) -> str:
    """One suite with a case per check: `worse` is a failure, and `undecided` is skipped."""
    cases = [(check.name, _RESULTS.get(check.verdict), sentence(check)) for check in gate.checks]
    return _suite(gate.baseline, gate.candidate, cases)


def junit_error(baseline: str, candidate: str, reason: str) -> str:
    """One suite with a case that was not evaluated."""
    return _suite(baseline, candidate, [("comparison", "error", reason)])


def _suite(baseline: str, candidate: str, cases: Sequence[tuple[str, str | None, str]]) -> str:
    """The XML of cases: name, element of the result (None if passed) and message."""
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", name=f"{candidate} against {baseline}")
    suite.set("tests", str(len(cases)))
    results = [result for _, result, _ in cases]
    suite.set("failures", str(results.count("failure")))
    suite.set("errors", str(results.count("error")))
    suite.set("skipped", str(results.count("skipped")))
    for name, result, message in cases:
        case = ElementTree.SubElement(suite, "testcase", name=name, classname=candidate)
        if result is not None:
            ElementTree.SubElement(case, result, message=message)
        ElementTree.SubElement(case, "system-out").text = message
    ElementTree.indent(root)
    # XML cannot contain control characters, even escaped ones.
    return printable(ElementTree.tostring(root, encoding="unicode", xml_declaration=True)) + "\n"
