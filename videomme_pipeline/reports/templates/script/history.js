// The same evaluation asked again, night by night, and what changed in the last night.

import { go, link } from "./address.js";
import { isReal, pointsInterval, seriesPicker, shownEvaluations } from "./breakdowns.js";
import { flipSections } from "./compare.js";
import { readAnswers } from "./data.js";
import { h, select } from "./dom.js";
import { count, day, interval, known, percent, plural, points } from "./format.js";
import { mainScore } from "./leaderboard.js";
import { axis, lineChart, MAX_SHOWN } from "./marks.js";
import { csvButton, dataTable, heading, ordered } from "./tables.js";

const DOUBTFUL_SHARE = 0.01;

export function historyView({ benchmark, params, details }) {
  const observed = benchmark.evaluations.filter((item) =>
    benchmark.history.some((night) => night.evaluation === item.index),
  );
  const chosen = params.has("show")
    ? shownEvaluations(benchmark, params).filter((item) => observed.includes(item))
    : [];
  const held = chosen.length ? chosen : ordered(observed, mainScore, true).slice(0, MAX_SHOWN);
  const nights = benchmark.history.filter((night) =>
    held.some((item) => item.index === night.evaluation),
  );
  const times = [...new Set(nights.map((night) => night.date))].toSorted();
  const [first, last] = [Date.parse(times[0]), Date.parse(times.at(-1))];
  const x = (date) =>
    last === first ? 0.5 : 0.04 + (0.92 * (Date.parse(date) - first)) / (last - first);
  const stride = Math.max(1, Math.ceil(times.length / 6));
  const point = (night) => ({
    x: x(night.date),
    value: night.value,
    low: night.low,
    high: night.high,
    alarm: alarmOf(night),
    doubtful: night.failed > DOUBTFUL_SHARE * night.n,
  });
  const table = nightsTable(benchmark, nights);
  return [
    h(
      "ul",
      { class: "lead" },
      held.map((item) => h("li", {}, lastNightSentence(benchmark, item))),
    ),
    seriesPicker({ ...benchmark, evaluations: observed }, params, "history", held),
    heading("Score by night"),
    lineChart({
      label: `Score by night for ${held.map((item) => item.name).join(", ")}; the same numbers are in the table below`,
      scale: historyAxis(nights),
      ticks: times
        .filter((_, index) => index % stride === 0)
        .map((date) => ({ x: x(date), text: day(date).replace(/ \d{4}$/, "") })),
      lines: held.map((item, series) => ({
        series,
        points: ordered(
          nights.filter((night) => night.evaluation === item.index && known(night.value)),
          (night) => night.date,
          false,
        ).map(point),
      })),
    }),
    h(
      "p",
      { class: "soft" },
      "Lines up and down: 95 % intervals. A ring: a check did not hold that night, bold for an error, dashed for a warning. A hollow mark: more than one question in a hundred was never answered; they count as wrong here.",
    ),
    heading("Nights", csvButton("history", table)),
    table.element,
    ...lastNightSections(benchmark, details, held, params),
  ];
}

function nightsTable(benchmark, nights) {
  return dataTable({
    label: "Every observation",
    sort: "-date",
    columns: [
      {
        key: "date",
        title: "Night",
        class: "nowrap",
        value: (row) => row.date,
        cell: (row) => day(row.date),
      },
      {
        key: "evaluation",
        title: "Evaluation",
        value: (row) => benchmark.evaluations[row.evaluation].name,
      },
      {
        key: "value",
        title: "Score",
        number: true,
        value: (row) => row.value,
        cell: (row) => percent(row.value),
      },
      {
        key: "change",
        title: "Since the night before",
        number: true,
        value: (row) => row.change,
        cell: (row) => points(row.change),
      },
      {
        key: "interval",
        title: "95 % interval",
        number: true,
        cell: (row) => interval(row.low, row.high),
      },
      { key: "n", title: "n", number: true, value: (row) => row.n, cell: (row) => count(row.n) },
      {
        key: "failed",
        title: "Never answered",
        number: true,
        value: (row) => row.failed,
        cell: (row) => count(row.failed),
      },
      {
        key: "findings",
        title: "What did not hold",
        class: "text",
        value: (row) => row.findings?.map((item) => item.summary).join("; ") ?? "not judged",
        cell: findingsCell,
      },
    ],
    rows: withChange(nights),
  });
}

function findingsCell(night) {
  if (!night.findings) return h("span", { class: "soft" }, "not judged");
  if (!night.findings.length) return h("span", { class: "soft" }, "nothing");
  return h(
    "ul",
    { class: "findings" },
    night.findings.map((item) =>
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

/** The worst finding of a night: "error", "warn", or null. */
function alarmOf(night) {
  const severities = night.findings?.map((item) => item.severity) ?? [];
  return severities.includes("error") ? "error" : severities.includes("warn") ? "warn" : null;
}

/** What the last night of an evaluation says beside the one before. */
function lastNightSentence(benchmark, item) {
  const night = benchmark.last_nights.find((one) => one.evaluation === item.index);
  const before = night.before_date ? day(night.before_date) : "the ordinary scores";
  const changed = night.before.filter(
    (cell, index) => cell && night.after[index] && cell !== night.after[index],
  ).length;
  const { overall } = night;
  const start = [h("strong", {}, item.name), `, ${day(night.date)}, against ${before}: `];
  if (!overall) return [start, "no question was answered in both."];
  if (!changed)
    return [
      start,
      `nothing changed, all ${plural(overall.n, overall.by === "Accuracy" ? "question was" : "group was", overall.by === "Accuracy" ? "questions were" : "groups were")} answered alike.`,
    ];
  return [
    start,
    `${points(overall.difference)} points (${pointsInterval(overall)}), `,
    h(
      "strong",
      {},
      isReal(overall, true) ? "more than chance explains" : "not more than chance explains",
    ),
    `; ${plural(changed, "answer")} changed.`,
  ];
}

/** The same for the first view, which leads here. */
export function nightSentence(benchmark) {
  const last = benchmark.history
    .map((night) => night.date)
    .toSorted()
    .at(-1);
  if (!last) return null;
  const alarmed = benchmark.history
    .filter((night) => night.date === last && alarmOf(night) === "error")
    .map((night) => benchmark.evaluations[night.evaluation].name);
  return [
    `Last night, ${day(last)}: `,
    alarmed.length
      ? [h("strong", { class: "worse" }, "▲ alarm"), ` for ${alarmed.join(", ")}`]
      : "no alarm",
    ". ",
    h("a", { href: link("history") }, "What changed"),
    ".",
  ];
}

/** The questions that fared otherwise in the last night, of one evaluation at a time. */
function lastNightSections(benchmark, details, held, params) {
  const nights = benchmark.last_nights.filter((night) =>
    held.some((item) => item.index === night.evaluation),
  );
  const names = nights.map((night) => benchmark.evaluations[night.evaluation].name);
  const night = nights[Math.max(0, names.indexOf(params.get("of")))];
  const { name } = benchmark.evaluations[night.evaluation];
  const said = details?.nights?.[benchmark.last_nights.indexOf(night)] ?? {};
  const turn = (changes) => go(link("history", { of: name, ...changes }));
  const sections = flipSections(
    benchmark,
    details,
    {
      before: (row) => readAnswers(night.before[row.index]),
      after: (row) => readAnswers(night.after[row.index]),
      beforeTitle: night.before_date ? day(night.before_date) : "Ordinary scores",
      afterTitle: day(night.date),
      beforeText: (row) => said[row.id]?.[0],
      afterText: (row) => said[row.id]?.[1],
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
        "Last night of",
        names.map((one) => [one, one]),
        name,
        (one) => turn({ of: one }),
      ),
    );
  return [choice, ...sections];
}

function historyAxis(nights) {
  const scored = nights.filter((night) => known(night.value));
  const low = Math.min(...scored.map((night) => night.low ?? night.value));
  const high = Math.max(...scored.map((night) => night.high ?? night.value));
  return axis(Math.max(0, Math.floor(low * 20) / 20), Math.min(1, Math.ceil(high * 20) / 20));
}

function withChange(nights) {
  const before = new Map();
  return ordered(nights, (night) => night.date, false).map((night) => {
    const last = before.get(night.evaluation);
    before.set(night.evaluation, night.value);
    return { ...night, change: known(last) && known(night.value) ? night.value - last : null };
  });
}
