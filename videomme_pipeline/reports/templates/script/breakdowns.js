// Scores by facet: dots with intervals, numbers and n; two facets crossed; a heat map; the effect
// of subtitles and of the number of frames.

import { go, link } from "./address.js";
import { h, jumpTo, select } from "./dom.js";
import { atLeast, count, interval, known, NONE, percent, plural, scoreText } from "./format.js";
import {
  axisHead,
  differenceAxis,
  intervalPlot,
  lineChart,
  MAX_SHOWN,
  NARROW_AXIS,
  sameNumbersBelow,
  seriesKey,
  UNIT_AXIS,
  zoomedAxis,
} from "./marks.js";
import { exportButtons } from "./exports.js";
import { dataTable, heading, lowerBoundColumn, numberColumn, ordered } from "./tables.js";
import { differenceTable } from "./differences.js";
import { seriesPicker, shownEvaluations } from "./picker.js";
import {
  bestBaseline,
  chanceOf,
  mainInterval,
  mainScore,
  mainScoreText,
  referenceValues,
} from "./scores.js";

export function breakdownsView({ benchmark, params }) {
  const shown = shownEvaluations(benchmark, params);
  const order = params.get("order") ?? "published";
  const sections = [
    ...benchmark.breakdowns.map((breakdown) =>
      breakdownSection(benchmark, breakdown, shown, order),
    ),
    trackSections(benchmark, shown),
    framesSection(benchmark),
    crossedSection(benchmark, params, shown),
    heatSection(benchmark),
  ].filter(Boolean);
  return [
    h("ul", { class: "lead" }, weakSpots(benchmark, shown[0])),
    seriesPicker(benchmark, params, "breakdowns"),
    h(
      "div",
      { class: "controls" },
      select(
        "Order of rows",
        [
          ["published", "As published"],
          ["worst", "Worst first"],
          ["score", "Best first"],
          ["size", "Most questions first"],
        ],
        order,
        (value) =>
          go(
            link("breakdowns", { order: value === "published" ? null : value }, [
              "benchmark",
              "show",
              "cross",
            ]),
          ),
      ),
    ),
    h(
      "nav",
      { class: "jumps", "aria-label": "Parts of this page" },
      sections.map((section) =>
        h(
          "button",
          { type: "button", class: "plain link", onclick: () => jumpTo(section) },
          section.dataset.title,
        ),
      ),
    ),
    sections,
  ];
}

function breakdownPart(title, ...content) {
  return h("section", { "data-title": title, tabindex: -1 }, content);
}

/** Facet values where the whole interval of `evaluation` is below its average. */
function weakSpots(benchmark, evaluation) {
  const cells = benchmark.breakdowns
    .flatMap((breakdown) =>
      breakdown.rows.map((row) => ({ breakdown, row, cell: row.cells[evaluation.index] })),
    )
    .filter(({ cell }) => known(cell?.value) && known(cell.low) && cell.videos > 1);
  const average = (measure) =>
    measure === "accuracy" ? evaluation.accuracy : evaluation.group_score;
  const weak = ordered(
    cells.filter(({ breakdown, cell }) => cell.high < average(breakdown.measure)),
    ({ cell }) => cell.value,
    false,
  );
  const byChance = Math.max(1, Math.round(0.025 * cells.length));
  const weakness = ({ breakdown, row, cell }) => [
    questionsOf(breakdown, row, evaluation),
    ` (${breakdown.title.toLowerCase()}, ${atLeast(cell.failed, scoreText(breakdown.measure, cell.value))})`,
  ];
  return [
    h(
      "li",
      {},
      weak.length
        ? [
            h("strong", {}, evaluation.name),
            " is weak in ",
            weak.slice(0, 4).map((item, index) => [index ? ", " : "", weakness(item)]),
            weak.length > 4 ? ` and ${count(weak.length - 4)} more` : "",
            ".",
          ]
        : [
            h("strong", {}, evaluation.name),
            ` has no subset clearly below its average of ${mainScoreText(evaluation)}.`,
          ],
    ),
    h(
      "li",
      { class: "soft" },
      `A subset is weak if its whole 95% CI is below the average. Of the ${plural(cells.length, "subset")} `,
      `with two or more videos, about ${count(byChance)} would be weak by chance.`,
    ),
  ];
}

/** Link from a breakdown row to its questions, or to the wrong answers of `evaluation`. */
function questionsOf(breakdown, row, evaluation) {
  const value = row.filter;
  const changes = evaluation
    ? { [breakdown.key]: value, show: evaluation.name, of: evaluation.name, outcome: "incorrect" }
    : { [breakdown.key]: value };
  return h("a", { href: link("questions", changes) }, row.values[0]);
}

function breakdownSection(benchmark, breakdown, shown, order) {
  const measure = breakdown.measure === "accuracy" ? "Accuracy" : "Group score";
  const rows = ordered(orderRows(breakdown.rows, shown, order), isOfOneVideo, false);
  const single = rows.filter(isOfOneVideo).length;
  const folded = single > MAX_UNFOLDED ? single : 0;
  const blind = bestBaseline(benchmark);
  const references = (row) => [
    { value: chanceOf(benchmark, breakdown.measure), class: "chance" },
    { value: blind && row.cells[blind.index]?.value, class: "blind" },
  ];
  const table = dataTable({
    label: `${measure} by ${breakdown.title.toLowerCase()}, with 95% CIs clustered by video`,
    caption:
      `${measure} by ${breakdown.title.toLowerCase()}, with 95% CIs clustered by video` +
      (folded ? `. ${plural(folded, "subset")} of one video are folded` : ""),
    step: folded ? rows.length - folded : Infinity,
    columns: [
      {
        key: "value",
        title: breakdown.title,
        class: "name",
        value: (row) => row.values[0],
        cell: (row) => questionsOf(breakdown, row),
      },
      {
        key: "plot",
        title: "",
        class: "plot",
        head: () => axisHead(UNIT_AXIS),
        cell: (row) =>
          intervalPlot(
            shown.map((item, series) => cellMark(row.cells[item.index], series)),
            UNIT_AXIS,
            references(row),
          ),
      },
      numberColumn(
        "n",
        breakdown.measure === "accuracy" ? "Questions" : "Groups",
        (row) => sizeOf(row),
        count,
        { fold: FOLD_SIZES },
      ),
      numberColumn("videos", "Videos", (row) => firstCell(row)?.videos, count, {
        fold: FOLD_SIZES + 1,
      }),
      ...shown.map((item) => lowerBoundColumn((row) => row.cells[item.index]?.failed, item.name)),
      ...shown.map((item, series) => ({
        key: item.name,
        title: item.name,
        number: true,
        class: "values",
        headClass: "number own-name",
        fold: 1 + series,
        mark: () => seriesKey(series),
        value: (row) => row.cells[item.index]?.value,
        cell: (row) => scoreCell(row.cells[item.index]),
      })),
    ],
    rows,
  });
  return breakdownPart(
    breakdown.title,
    heading(breakdown.title, exportButtons(`by-${breakdown.key}`, table)),
    table.element,
  );
}

/** Fold the numbers of the evaluations after the sizes, and the best evaluation last. */
const FOLD_SIZES = 100;
const firstCell = (row) => row.cells.find(Boolean);
const sizeOf = (row) => firstCell(row)?.n;
const isOfOneVideo = (row) => Number(firstCell(row)?.videos === 1);
/** More rows of one video than these are folded: their intervals say little. */
const MAX_UNFOLDED = 3;

function cellMark(cell, series) {
  return cell ? { value: cell.value, low: cell.low, high: cell.high, series } : null;
}

function scoreCell(cell) {
  if (!cell) return NONE;
  return [
    h("span", {}, atLeast(cell.failed, percent(cell.value))),
    h("small", {}, interval(cell.low, cell.high)),
  ];
}

const wholePercent = (cell) => atLeast(cell?.failed, percent(cell?.value, 0));

function orderRows(rows, shown, order) {
  const first = shown[0]?.index ?? 0;
  if (order === "worst") return ordered(rows, (row) => row.cells[first]?.value, false);
  if (order === "score") return ordered(rows, (row) => row.cells[first]?.value, true);
  if (order === "size") return ordered(rows, sizeOf, true);
  return rows;
}

function trackSections(benchmark, shown) {
  const pairs = benchmark.tracks.filter((pair) =>
    shown.some((item) => item.index === pair.with || item.index === pair.without),
  );
  if (!pairs.length) return null;
  return breakdownPart(
    "Subtitles",
    pairs.map((pair) => {
      const [subtitled, without] = [
        benchmark.evaluations[pair.with],
        benchmark.evaluations[pair.without],
      ];
      const table = differenceTable({
        label: `${subtitled.name} minus ${without.name} in points of accuracy, paired by question`,
        rows: pair.rows,
        scale: differenceAxis(pair.rows),
      });
      return [
        heading(
          `Effect of subtitles: ${without.model}, ${without.sampling}`,
          exportButtons(`subtitles-${without.name}`, table),
        ),
        table.element,
      ];
    }),
  );
}

/** Score by number of frames, for models evaluated with several samplings. */
function framesSection(benchmark) {
  const families = new Map();
  for (const item of benchmark.evaluations) {
    if (item.baseline || !item.frames) continue;
    families.set(item.frames_family, [...(families.get(item.frames_family) ?? []), item]);
  }
  const lines = [...families.values()]
    .map((items) => ordered(items, (item) => item.frames, false))
    .filter((items) => new Set(items.map((item) => item.frames)).size > 1)
    .slice(0, MAX_SHOWN);
  if (!lines.length) return null;
  const sizes = [...new Set(lines.flat().map((item) => item.frames))].toSorted((a, b) => a - b);
  const [first, last] = [Math.log2(sizes[0]), Math.log2(sizes.at(-1))];
  const x = (frames) => 0.05 + (0.9 * (Math.log2(frames) - first)) / (last - first);
  const framesPoint = (item) => {
    const [value, low, high] = mainInterval(item);
    return { x: x(item.frames), value, low, high };
  };
  const scale = zoomedAxis(lines.flat().map(framesPoint));
  const title = (items) => `${items[0].model} ${items[0].subtitles ? "with" : "without"} subtitles`;
  const table = dataTable({
    label: "Score by frames per question",
    step: Infinity,
    rows: lines.flatMap((items, series) =>
      items.map((item) => ({ item, series, title: title(items) })),
    ),
    columns: [
      { key: "name", title: "Evaluation", class: "name", value: (row) => row.item.name },
      {
        key: "line",
        title: "Line",
        value: (row) => row.title,
        cell: (row) => h("span", { class: "key nowrap" }, seriesKey(row.series), row.title),
      },
      numberColumn("frames", "Frames", (row) => row.item.frames, count),
      {
        key: "score",
        title: "Score",
        number: true,
        value: (row) => mainScore(row.item),
        cell: (row) => atLeast(row.item.failed, percent(mainScore(row.item))),
      },
      lowerBoundColumn((row) => row.item.failed),
      {
        key: "interval",
        title: "95% CI",
        number: true,
        cell: (row) => interval(...mainInterval(row.item).slice(1)),
      },
    ],
  });
  return breakdownPart(
    "Frames",
    heading("Number of frames", exportButtons("frames", table)),
    h(
      "p",
      { class: "soft" },
      "Score by frames per question. The score axis is zoomed to the data, the other one is logarithmic.",
    ),
    h(
      "div",
      { class: "multiples" },
      lines.map((items, series) =>
        h(
          "figure",
          {},
          h("figcaption", { class: "key" }, seriesKey(series), title(items)),
          lineChart({
            label: sameNumbersBelow(`Score by number of frames for ${title(items)}`),
            scale,
            ticks: sizes.map((size) => ({ x: x(size), text: String(size) })),
            references: referenceValues(benchmark),
            lines: [{ series, points: items.map(framesPoint) }],
          }),
        ),
      ),
    ),
    table.element,
  );
}

function crossedSection(benchmark, params, shown) {
  if (!benchmark.crossed.length) return null;
  const chosen =
    benchmark.crossed.find((item) => item.key === params.get("cross")) ?? benchmark.crossed[0];
  const scale = NARROW_AXIS;
  const references = [{ value: benchmark.chance, class: "chance" }];
  const values = [...new Set(chosen.rows.map((row) => row.values[1]))];
  const firsts = [...new Set(chosen.rows.map((row) => row.values[0]))];
  const find = (first, second) =>
    chosen.rows.find((row) => row.values[0] === first && row.values[1] === second);
  const table = dataTable({
    label: `Accuracy by ${chosen.title.toLowerCase()}; n and the scores are below each plot`,
    step: Infinity,
    columns: [
      { key: "value", title: chosen.second_title, class: "name", value: (row) => row.value },
      ...firsts.map((first) => ({
        key: first,
        title: first,
        class: "plot narrow",
        head: () => axisHead(scale),
        value: (row) => find(first, row.value)?.cells[shown[0]?.index]?.value,
        cell: (row) => {
          const crossing = find(first, row.value);
          if (!crossing) return NONE;
          return [
            intervalPlot(
              shown.map((item, series) => cellMark(crossing.cells[item.index], series)),
              scale,
              references,
            ),
            h(
              "small",
              { class: "under-plot" },
              `n ${count(sizeOf(crossing))}: `,
              shown.map((item, index) => [
                index ? " / " : "",
                h("span", { class: `series-${index}` }, wholePercent(crossing.cells[item.index])),
              ]),
            ),
          ];
        },
      })),
    ],
    rows: values.map((value) => ({ value })),
  });
  const control = select(
    "Facets",
    benchmark.crossed.map((item) => [item.key, item.title]),
    chosen.key,
    (key) => go(link("breakdowns", { cross: key }, ["benchmark", "show", "order"])),
  );
  return breakdownPart(
    "Two facets crossed",
    heading("Two facets crossed", exportButtons(chosen.key, table)),
    h("div", { class: "controls" }, control),
    table.element,
  );
}

/** The facet with the most values × evaluation. */
function heatSection(benchmark) {
  const [finest] = benchmark.breakdowns.toSorted((a, b) => b.rows.length - a.rows.length);
  if (!finest || benchmark.evaluations.length < 2) return null;
  const columns = ordered(benchmark.evaluations, mainScore, true);
  const shade = (value) => (known(value) ? Math.min(5, Math.floor(6 * value + 1e-4)) : 0);
  const table = dataTable({
    label: `${finest.title} × evaluation: darker is better`,
    step: Infinity,
    sticky: true,
    columns: [
      { key: "value", title: finest.title, class: "name", value: (row) => row.values[0] },
      { key: "n", title: "n", number: true, value: sizeOf, cell: (row) => count(sizeOf(row)) },
      ...columns.map((item) => ({
        key: item.name,
        title: item.name,
        headClass: "number own-name",
        value: (row) => row.cells[item.index]?.value,
        class: (row) => `heat heat-${shade(row.cells[item.index]?.value)}`,
        cell: (row) => wholePercent(row.cells[item.index]),
      })),
      ...columns.map((item) => lowerBoundColumn((row) => row.cells[item.index]?.failed, item.name)),
    ],
    rows: finest.rows,
  });
  return breakdownPart(
    "Heat map",
    heading("Heat map", exportButtons(`heat-${finest.key}`, table)),
    table.element,
  );
}
