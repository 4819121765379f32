// The headline scores of all benchmarks side by side: one row per model and settings.

import { exportButtons } from "./exports.js";
import { atLeast, count, interval, NONE, percent } from "./format.js";
import { h } from "./dom.js";
import { dataTable, heading, lowerBoundColumn } from "./tables.js";

const SETTINGS = [
  ["model", "Model"],
  ["sampling", "Sampling"],
  ["track", "Track"],
  ["reader", "Reader"],
];
/** Settings that have a column if rows differ in them. */
const OTHERS = [
  ["subtitles", "Subtitles"],
  ["prompt", "Prompt"],
  ["generation", "Generation"],
  ["repeats", "Repeats"],
];

/** One row per model and settings, one column per benchmark. */
export function acrossView({ page }) {
  const others = OTHERS.filter(([key]) => new Set(page.across.map((row) => row[key])).size > 1);
  const table = dataTable({
    label: "Headline scores of all benchmarks, with 95% CIs",
    rows: page.across,
    sticky: true,
    step: Infinity,
    columns: [
      ...[...SETTINGS, ...others].map(([key, title], index) => ({
        key,
        title,
        class: index ? null : "name",
        value: (row) => (key === "track" ? row[key].replaceAll("_", " ") : row[key]),
      })),
      ...page.benchmarks.flatMap((benchmark) => [
        {
          key: benchmark.name,
          title: `${benchmark.title} (%)`,
          number: true,
          hint: benchmark.mean_title ?? undefined,
          value: (row) => row.scores[benchmark.name]?.score,
          cell: (row) => headlineCell(row.scores[benchmark.name]),
        },
        lowerBoundColumn((row) => row.scores[benchmark.name]?.failed, benchmark.title),
      ]),
    ],
  });
  return [
    heading("All benchmarks", exportButtons("benchmarks", table)),
    h(
      "p",
      {},
      "The score that ranks evaluations of each benchmark. A combination that was not evaluated has no score. ",
      "Scores of different benchmarks have different questions and are not averaged.",
    ),
    table.element,
  ];
}

function headlineCell(cell) {
  if (!cell) return NONE;
  return [
    h("span", { class: "strong" }, atLeast(cell.failed, percent(cell.score))),
    h("small", { class: "below" }, interval(cell.score_low, cell.score_high)),
    h("small", { class: "below" }, cell.evaluation),
    cell.complete
      ? null
      : h(
          "small",
          { class: "below" },
          `${count(cell.questions)} of ${count(cell.benchmark_questions)} questions`,
        ),
  ];
}
