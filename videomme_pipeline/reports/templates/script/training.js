// Scores of the checkpoints of training runs against the training step.

import { go, link } from "./address.js";
import { h, select } from "./dom.js";
import { exportButtons } from "./exports.js";
import { atLeast, count, interval, known, percent, points } from "./format.js";
import { axisAround, DOUBTFUL_SHARE } from "./history.js";
import { publishedRows } from "./leaderboard.js";
import { lineChart, MAX_SHOWN, sameNumbersBelow, seriesKey } from "./marks.js";
import { dataTable, heading, lowerBoundColumn, numberColumn, ordered } from "./tables.js";

const GATE_ALARMS = { failed: "error", undecided: "warn" };

export function trainingView({ benchmark, params }) {
  const rows = benchmark.checkpoints;
  const { subtitles } = benchmark.evaluations[rows[0].evaluation];
  const published = publishedRows(benchmark).filter((row) => row.with_subtitles === subtitles);
  const chosen = published.find((row) => row.name === params.get("published"));
  const references = chosen ? [{ value: chosen.main, class: "published" }] : [];
  const curves = [...Map.groupBy(rows, (row) => curveName(row))].slice(0, MAX_SHOWN);
  const shown = curves.flatMap(([, members]) => members);
  const steps = [...new Set(shown.map((row) => row.step))].toSorted((a, b) => a - b);
  const [first, last] = [steps[0], steps.at(-1)];
  const x = (step) => (last === first ? 0.5 : 0.04 + (0.92 * (step - first)) / (last - first));
  const stride = Math.max(1, Math.ceil(steps.length / 5));
  const table = checkpointsTable(benchmark, rows);
  return [
    heading(
      "Score by training step",
      published.length > 0 &&
        select(
          "Published result",
          [
            ["", "none"],
            ...published.map((row) => [row.name, `${row.name}, ${percent(row.main)}`]),
          ],
          chosen?.name ?? "",
          (name) => go(link("training", { published: name || null }, ["benchmark"])),
        ),
    ),
    h(
      "p",
      { class: "legend" },
      curves.map(([name], series) => h("span", { class: "key" }, seriesKey(series), name)),
    ),
    lineChart({
      label: sameNumbersBelow(
        `Score by training step for ${curves.map(([name]) => name).join(", ")}`,
      ),
      scale: axisAround([...shown, ...references]),
      references,
      ticks: steps
        .filter((_, index) => index % stride === 0)
        .map((step) => ({ x: x(step), text: count(step) })),
      lines: curves.map(([, members], series) => ({
        series,
        points: members
          .filter((row) => known(row.value))
          .map((row) => ({
            x: x(row.step),
            value: row.value,
            low: row.low,
            high: row.high,
            alarm: GATE_ALARMS[row.outcome],
            doubtful: row.failed > DOUBTFUL_SHARE * row.n,
          })),
      })),
    }),
    h(
      "p",
      { class: "soft" },
      "Vertical lines are 95% CIs. A ring marks a gate: solid if it failed, dashed if it is ",
      "undecided. A hollow mark means that more than 1% of the questions failed; they count as wrong.",
      chosen &&
        ` The dashed line is the published result of ${chosen.name}, on the whole benchmark.`,
      curves.length < new Set(rows.map(curveName)).size &&
        ` The chart shows the first ${MAX_SHOWN} curves; the table has all.`,
    ),
    heading("Checkpoints", exportButtons("checkpoints", table)),
    table.element,
  ];
}

const curveName = (row) => `${row.run} (${row.template})`;

function checkpointsTable(benchmark, rows) {
  return dataTable({
    label: "All checkpoints",
    sort: "-step",
    columns: [
      numberColumn("step", "Step", (row) => row.step, count),
      { key: "run", title: "Training run", value: (row) => row.run },
      { key: "template", title: "Template", fold: 4, value: (row) => row.template },
      {
        key: "value",
        title: "Score",
        number: true,
        value: (row) => row.value,
        cell: (row) => atLeast(row.failed, percent(row.value)),
      },
      lowerBoundColumn((row) => row.failed),
      {
        key: "interval",
        title: "95% CI",
        number: true,
        fold: 3,
        cell: (row) => interval(row.low, row.high),
      },
      numberColumn("n", "n", (row) => row.n, count, { fold: 5 }),
      {
        key: "outcome",
        title: "Gate",
        value: (row) => row.outcome,
        cell: (row) =>
          h("strong", { class: row.outcome === "failed" ? "worse" : null }, row.outcome),
      },
      numberColumn("difference", "Difference", (row) => row.difference, points),
      {
        key: "reason",
        title: "Comparison",
        class: "text",
        fold: 1,
        value: (row) => row.reason,
        cell: (row) => h("span", { dir: "auto" }, row.reason),
      },
    ],
    rows: ordered(rows, (row) => row.step, false),
  });
}
