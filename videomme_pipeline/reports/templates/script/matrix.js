// Every pair of evaluations of a track: won, lost, and whether the difference is significant.

import { link } from "./address.js";
import { h } from "./dom.js";
import { exportButtons } from "./exports.js";
import { count, known, NONE, plural, points, probability } from "./format.js";
import { dataTable, heading, ordered } from "./tables.js";
import { comparisonOf, isSignificant } from "./differences.js";
import { byTrack, mainScore } from "./scores.js";

const FALSE_ALARM_RATE = 0.05;
const MAX_COLUMNS = 12;

/** A matrix for each track with three evaluations or more: the summary already compares two. */
export function matrixSections(benchmark) {
  const tracks = byTrack(benchmark.evaluations);
  return tracks
    .filter(([, evaluations]) => evaluations.length > 2)
    .map(([title, evaluations]) =>
      matrixSection(
        benchmark,
        tracks.length > 1 ? `Wins and losses ${title}` : "Wins and losses",
        ordered(evaluations, mainScore, true),
      ),
    );
}

function matrixSection(benchmark, title, ranked) {
  const difference = (row, column) =>
    comparisonOf(benchmark, row.index, column.index)?.overall ?? null;
  const compared = (row) =>
    ranked.map((column) => (row === column ? null : difference(row, column))).filter(Boolean);
  const counted = (row, isCounted) =>
    compared(row).filter((overall) => isSignificant(overall, true) && isCounted(overall)).length;
  const better = (row) => counted(row, (overall) => overall.difference > 0);
  const worse = (row) => counted(row, (overall) => overall.difference < 0);
  const ofCompared = (row, number) => {
    const pairs = compared(row).length;
    return pairs < ranked.length - 1 ? `${count(number)} of ${count(pairs)}` : count(number);
  };
  const table = dataTable({
    label: title,
    caption: matrixCaption(
      benchmark.comparisons.filter(({ a, b }) =>
        [a, b].every((index) => ranked.includes(benchmark.evaluations[index])),
      ),
      ranked.length,
    ),
    step: Infinity,
    sticky: true,
    rows: ranked,
    columns: [
      {
        key: "name",
        title: "Evaluation",
        class: "name",
        value: (row) => row.name,
        cell: (row) => `${ranked.indexOf(row) + 1}. ${row.name}`,
      },
      {
        key: "better",
        title: "Better than",
        number: true,
        value: better,
        cell: (row) => ofCompared(row, better(row)),
      },
      {
        key: "worse",
        title: "Worse than",
        number: true,
        value: worse,
        cell: (row) => ofCompared(row, worse(row)),
      },
      ...ranked.slice(0, MAX_COLUMNS).map((column, index) => ({
        key: `minus-${column.name}`,
        title: `vs ${index + 1}`,
        hint: `Row minus ${column.name}`,
        number: true,
        value: (row) => (row === column ? null : difference(row, column)?.difference),
        cell: (row) => (row === column ? "" : pairCell(benchmark, row, column)),
      })),
    ],
  });
  return [
    heading(title, exportButtons(title.toLowerCase().replaceAll(" ", "-"), table)),
    table.element,
  ];
}

function matrixCaption(comparisons, evaluations) {
  const pairs = (evaluations * (evaluations - 1)) / 2;
  const significant = comparisons.filter((pair) => isSignificant(pair.overall, true)).length;
  const byChance = Math.max(1, Math.round(FALSE_ALARM_RATE * comparisons.length));
  return [
    "Row minus column in points, and below it the questions won and lost. ▲ and ▼ are significant " +
      `(p < ${FALSE_ALARM_RATE}, paired, clustered by video): ${count(significant)} of ` +
      `${plural(comparisons.length, "pair")}; about ${count(byChance)} would be by chance.`,
    evaluations > MAX_COLUMNS && `Only the best ${MAX_COLUMNS} have a column.`,
    comparisons.length < pairs &&
      `${count(comparisons.length)} of ${count(pairs)} pairs were compared: ` +
        "those of the best 20 evaluations, and all others with the best one.",
  ]
    .filter(Boolean)
    .join(" ");
}

function pairCell(benchmark, row, column) {
  const pair = comparisonOf(benchmark, row.index, column.index);
  if (!pair) return NONE;
  const { overall, won, lost } = pair;
  const better = overall.difference > 0;
  const sign = isSignificant(overall, true) ? (better ? "▲" : "▼") : "";
  return [
    h(
      "a",
      {
        href: link("compare", { a: column.name, b: row.name }),
        title: `${row.name} minus ${column.name}, p ${probability(overall.p)}`,
        class: sign ? (better ? "better" : "worse") : "even",
      },
      sign,
      known(overall.difference) ? ` ${points(overall.difference)}` : NONE,
    ),
    h("small", { class: "below" }, `${count(won)} : ${count(lost)}`),
  ];
}
