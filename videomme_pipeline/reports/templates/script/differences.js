// Differences of two evaluations in points: comparisons, their significance and their table.

import { h } from "./dom.js";
import { count, known, NONE, points, probability } from "./format.js";
import { axisHead, intervalPlot } from "./marks.js";
import { dataTable, numberColumn } from "./tables.js";

/** The comparison `to` minus `from`, or undefined if the page does not have this pair. */
export function comparisonOf(benchmark, to, from) {
  const comparison = benchmark.comparisons.find(
    (item) => (item.a === from && item.b === to) || (item.a === to && item.b === from),
  );
  if (!comparison || (comparison.a === from && comparison.b === to)) return comparison;
  const reversed = (row) => ({
    ...row,
    difference: negative(row.difference),
    low: negative(row.high),
    high: negative(row.low),
  });
  return {
    ...comparison,
    a: from,
    b: to,
    overall: reversed(comparison.overall),
    won: comparison.lost,
    lost: comparison.won,
    marginals: comparison.marginals?.map(reversed) ?? null,
  };
}

const negative = (value) => (known(value) ? -value : value);

/** Table with plots of rows {by, value, n, difference, low, high, p?, significant?}. */
export function differenceTable({ label, rows, scale, marked = false, step = Infinity }) {
  const direction = (row) =>
    !known(row.low) || !isSignificant(row, marked)
      ? "even"
      : row.difference > 0
        ? "better"
        : "worse";
  return dataTable({
    label,
    step,
    rows,
    columns: [
      {
        key: "value",
        title: "Questions",
        class: "name",
        value: (row) => (row.by ? `${row.by}: ${row.value}` : row.value),
        cell: (row) => [row.value, row.by ? h("small", {}, row.by) : null],
      },
      {
        key: "plot",
        title: "",
        class: "plot",
        head: () => axisHead(scale, points0),
        cell: (row) =>
          intervalPlot(
            [
              {
                value: row.difference,
                low: row.low,
                high: row.high,
                class: direction(row),
                series: 0,
              },
            ],
            scale,
            [],
            0,
          ),
      },
      {
        key: "difference",
        title: "Difference",
        number: true,
        value: (row) => row.difference,
        cell: (row) => h("span", { class: direction(row) }, points(row.difference)),
      },
      { key: "interval", title: "95% CI", number: true, fold: 2, cell: pointsInterval },
      numberColumn("n", "n", (row) => row.n, count, { fold: 4 }),
      rows.some((row) => known(row.p)) &&
        numberColumn("p", marked ? "Adjusted p" : "p", (row) => row.p, probability, { fold: 3 }),
      marked && {
        key: "mark",
        title: "Significance",
        hint: "After Benjamini–Hochberg",
        fold: 1,
        value: (row) => (row.significant ? "significant" : ""),
        cell: (row) =>
          !known(row.significant)
            ? ""
            : row.significant
              ? h("strong", { class: "nowrap" }, "● significant")
              : h("span", { class: "soft nowrap" }, "○ not significant"),
      },
    ].filter(Boolean),
  });
}

const points0 = (value) => points(value).replace(/\.0$/, "");
export const pointsInterval = (row) =>
  known(row.low) ? `${points(row.low)} to ${points(row.high)}` : NONE;

export function isSignificant(row, marked = false) {
  return marked && known(row.significant)
    ? row.significant
    : known(row.low) && (row.low > 0 || row.high < 0);
}
