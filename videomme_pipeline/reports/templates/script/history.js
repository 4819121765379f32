// Nightly runs of the same evaluation, and the changes in the last one.

import { go, link } from "./address.js";
import { flipSections } from "./compare.js";
import { readAnswers } from "./data.js";
import { h, select } from "./dom.js";
import { atLeast, count, day, interval, known, percent, plural, points } from "./format.js";
import { axis, lineChart, MAX_SHOWN, sameNumbersBelow, UNIT_AXIS } from "./marks.js";
import { exportButtons } from "./exports.js";
import { dataTable, heading, lowerBoundColumn, numberColumn, ordered } from "./tables.js";
import { isSignificant, pointsInterval } from "./differences.js";
import { seriesPicker, shownEvaluations } from "./picker.js";
import { mainScore } from "./scores.js";

export const DOUBTFUL_SHARE = 0.01;

export function historyView({ benchmark, params, details }) {
  if (!benchmark.history.length)
    return h(
      "p",
      { class: "notice" },
      "There are no nightly runs yet. A nightly run asks the questions again and compares the answers ",
      "with earlier ones. Write the lines ",
      h("code", {}, `since: ${day(benchmark.evaluations[0].answered_at)}`),
      " and ",
      h("code", {}, `evaluations: {${benchmark.evaluations[0].name}: {}}`),
      " into nightly.yaml, then run ",
      h("code", {}, `videomme nightly ${benchmark.evaluations[0].name}`),
      ".",
    );
  const tracked = benchmark.evaluations.filter((item) =>
    benchmark.history.some((run) => run.evaluation === item.index),
  );
  const chosen = params.has("show")
    ? shownEvaluations(benchmark, params).filter((item) => tracked.includes(item))
    : [];
  const observed = chosen.length ? chosen : ordered(tracked, mainScore, true).slice(0, MAX_SHOWN);
  const runs = benchmark.history.filter((run) =>
    observed.some((item) => item.index === run.evaluation),
  );
  const times = [...new Set(runs.map((run) => run.date))].toSorted();
  const [first, last] = [Date.parse(times[0]), Date.parse(times.at(-1))];
  const x = (date) =>
    last === first ? 0.5 : 0.04 + (0.92 * (Date.parse(date) - first)) / (last - first);
  const stride = Math.max(1, Math.ceil(times.length / 3));
  const point = (run) => ({
    x: x(run.date),
    value: run.value,
    low: run.low,
    high: run.high,
    alarm: alarmOf(run),
    doubtful: run.failed > DOUBTFUL_SHARE * run.n,
  });
  const table = runsTable(benchmark, runs);
  return [
    h(
      "ul",
      { class: "lead" },
      observed.map((item) =>
        h("li", {}, lastRunSentence(benchmark, item), assessed(benchmark, item)),
      ),
    ),
    seriesPicker({ ...benchmark, evaluations: tracked }, params, "history", observed),
    heading("Score by nightly run"),
    lineChart({
      label: sameNumbersBelow(
        `Score by nightly run for ${observed.map((item) => item.name).join(", ")}`,
      ),
      scale: axisAround(runs),
      ticks: times
        .filter((_, index) => index % stride === 0)
        .map((date) => ({ x: x(date), text: day(date) })),
      lines: observed.map((item, series) => ({
        series,
        points: ordered(
          runs.filter((run) => run.evaluation === item.index && known(run.value)),
          (run) => run.date,
          false,
        ).map(point),
      })),
    }),
    h(
      "p",
      { class: "soft" },
      "Vertical lines are 95% CIs. A ring marks a failed check: solid for an error, dashed for a ",
      "warning. A hollow mark means that more than 1% of the questions failed; they count as wrong.",
    ),
    heading("Nightly runs", exportButtons("history", table)),
    table.element,
    ...lastRunSections(benchmark, details, observed, params),
  ];
}

function runsTable(benchmark, runs) {
  return dataTable({
    label: "All nightly runs",
    sort: "-date",
    columns: [
      {
        key: "date",
        title: "Date",
        class: "nowrap",
        value: (row) => row.date,
        cell: (row) => day(row.date),
      },
      {
        key: "evaluation",
        title: "Evaluation",
        fold: 2,
        value: (row) => benchmark.evaluations[row.evaluation].name,
      },
      {
        key: "value",
        title: "Score",
        number: true,
        value: (row) => row.value,
        cell: (row) => atLeast(row.failed, percent(row.value)),
      },
      lowerBoundColumn((row) => row.failed),
      numberColumn("change", "Change", (row) => row.change, points),
      {
        key: "interval",
        title: "95% CI",
        number: true,
        fold: 3,
        cell: (row) => interval(row.low, row.high),
      },
      numberColumn("n", "n", (row) => row.n, count, { fold: 5 }),
      numberColumn("failed", "Failed", (row) => row.failed, count, { fold: 4 }),
      {
        key: "findings",
        title: "Failed checks",
        class: "text",
        fold: 1,
        value: (row) => row.findings?.map((item) => item.summary).join("; ") ?? "not assessed",
        cell: findingsCell,
      },
    ],
    rows: withChange(runs),
  });
}

function findingsCell(run) {
  if (!run.findings) return h("span", { class: "soft" }, "not assessed");
  if (!run.findings.length) return h("span", { class: "soft" }, "none");
  return h(
    "ul",
    { class: "findings" },
    run.findings.map((item) =>
      h(
        "li",
        {},
        h(
          "strong",
          { class: item.severity === "error" ? "worse" : null },
          item.severity === "error" ? "▲ " : "△ ",
          item.check,
          item.new ? ", new" : "",
        ),
        " ",
        h("span", { dir: "auto" }, item.summary),
      ),
    ),
  );
}

/** The worst severity of the failed checks of a nightly run: "error", "warn" or null. */
function alarmOf(run) {
  const severities = run.findings?.map((item) => item.severity) ?? [];
  return severities.includes("error") ? "error" : severities.includes("warn") ? "warn" : null;
}

/** Sentence that compares the last nightly run of an evaluation with the previous one. */
function lastRunSentence(benchmark, item) {
  const run = benchmark.last_runs.find((entry) => entry.evaluation === item.index);
  const before = run.before_date ? day(run.before_date) : "the scores of the evaluation";
  const changed = run.before.filter(
    (cell, index) => cell && run.after[index] && cell !== run.after[index],
  ).length;
  const { overall } = run;
  const start = [h("strong", {}, item.name), `, ${day(run.date)}, compared with ${before}: `];
  if (!overall) return [start, "no question was answered by both."];
  if (!changed)
    return [
      start,
      `no change in ${plural(overall.n, overall.by === "Accuracy" ? "question" : "group")}.`,
    ];
  return [
    start,
    `${points(overall.difference)} points (95% CI ${pointsInterval(overall)}), `,
    h("strong", {}, isSignificant(overall, true) ? "significant" : "not significant"),
    `; ${plural(changed, "answer")} changed.`,
  ];
}

/** What the nightly check of the score found, against all earlier runs and the reference. */
function assessed(benchmark, item) {
  const { assessment } = benchmark.last_runs.find((entry) => entry.evaluation === item.index);
  return known(assessment) ? h("small", { class: "below" }, `Nightly check: ${assessment}.`) : null;
}

/** A sentence about the last nightly run, for the leaderboard. */
export function nightlySentence(benchmark) {
  const last = benchmark.history
    .map((run) => run.date)
    .toSorted()
    .at(-1);
  if (!last) return null;
  const runs = benchmark.history.filter((run) => run.date === last);
  const names = (some) => some.map((run) => benchmark.evaluations[run.evaluation].name).join(", ");
  const alarmed = runs.filter((run) => alarmOf(run) === "error");
  const unassessed = runs.filter((run) => !run.findings);
  return [
    `Last nightly run, ${day(last)}: `,
    alarmed.length > 0 && [
      h("strong", { class: "worse" }, "▲ alarm"),
      ` for ${names(alarmed)}${unassessed.length ? "; " : ""}`,
    ],
    unassessed.length > 0 && `not assessed for ${names(unassessed)}`,
    !alarmed.length && !unassessed.length && "no alarm",
    ". ",
    h("a", { href: link("history") }, "What changed"),
    ".",
  ];
}

/** Questions with another outcome in the last nightly run of one evaluation. */
function lastRunSections(benchmark, details, observed, params) {
  const runs = benchmark.last_runs.filter((run) =>
    observed.some((item) => item.index === run.evaluation),
  );
  const names = runs.map((run) => benchmark.evaluations[run.evaluation].name);
  const run = runs[Math.max(0, names.indexOf(params.get("of")))];
  const { name } = benchmark.evaluations[run.evaluation];
  const responses = details?.runs?.[benchmark.last_runs.indexOf(run)] ?? {};
  const turn = (changes) => go(link("history", { of: name, ...changes }));
  const sections = flipSections(
    benchmark,
    details,
    {
      before: (row) => readAnswers(run.before[row.index]),
      after: (row) => readAnswers(run.after[row.index]),
      beforeTitle: run.before_date ? day(run.before_date) : "Scores of the evaluation",
      afterTitle: day(run.date),
      beforeText: (row) => responses[row.id]?.[0],
      afterText: (row) => responses[row.id]?.[1],
      show: name,
    },
    params.get("flips"),
    (key) => turn({ flips: key }),
  );
  const choice =
    names.length > 1 &&
    h(
      "div",
      { class: "controls" },
      select(
        "Evaluation",
        names.map((value) => [value, value]),
        name,
        (value) => turn({ of: value }),
      ),
    );
  return [choice, ...sections];
}

/** Axis for scores {value, low, high}. */
export function axisAround(runs) {
  const scored = runs.filter((run) => known(run.value));
  if (!scored.length) return UNIT_AXIS;
  const low = Math.min(...scored.map((run) => run.low ?? run.value));
  const high = Math.max(...scored.map((run) => run.high ?? run.value));
  return axis(Math.max(0, Math.floor(low * 20) / 20), Math.min(1, Math.ceil(high * 20) / 20));
}

function withChange(runs) {
  const before = new Map();
  return ordered(runs, (run) => run.date, false).map((run) => {
    const last = before.get(run.evaluation);
    before.set(run.evaluation, run.value);
    return { ...run, change: known(last) && known(run.value) ? run.value - last : null };
  });
}
