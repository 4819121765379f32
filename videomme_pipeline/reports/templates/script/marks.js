// Marks: dots with intervals on a shared axis. Positions are percentages, so a plot fits its cell
// at any width. Every plot has its numbers as text next to it and is hidden from screen readers.

import { OUTCOMES } from "./data.js";
import { h } from "./dom.js";
import { known, percent } from "./format.js";

const LANE = 16;
const FIRST_LANE = 17;
const DODGE = 7;
const SHAPES = [
  "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z",
  "M0,-5L5,0L0,5L-5,0z",
  "M-4,-4H4V4H-4z",
  "M0,-5L5,4H-5z",
  "M0,5L5,-4H-5z",
  "M-5,-1.5H-1.5V-5H1.5V-1.5H5V1.5H1.5V5H-1.5V1.5H-5z",
];
export const MAX_SHOWN = SHAPES.length;

export function axis(low, high, most = 6) {
  const span = high - low;
  const step = [0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5].find((size) => span / size <= most) ?? 1;
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + 1e-9; tick += step)
    ticks.push(Number(tick.toFixed(4)));
  return {
    low,
    high,
    ticks,
    at: (value) => `${(100 * (Math.min(Math.max(value, low), high) - low)) / span}%`,
  };
}

const isWithin = ({ low, high }, value) => known(value) && value >= low && value <= high;

export const UNIT_AXIS = axis(0, 1);
export const NARROW_AXIS = axis(0, 1, 2);

/** An axis that is just wide enough for the intervals in `rows`, with at most four ticks. */
export function zoomedAxis(rows) {
  if (!rows.length) return UNIT_AXIS;
  const low = Math.min(...rows.map((row) => row.low ?? row.value));
  const high = Math.max(...rows.map((row) => row.high ?? row.value));
  const step = high - low > 0.2 ? 20 : 50;
  const [from, to] = [Math.floor(low * step) / step, Math.ceil(high * step) / step];
  return axis(Math.max(0, from), Math.min(1, Math.max(to, from + 0.1)), 3);
}

/** A symmetric axis around zero for every interval in `rows`, with at most four ticks. */
export function differenceAxis(rows) {
  const reach = Math.max(
    0.05,
    ...rows.flatMap((row) => [
      Math.abs(row.low ?? row.difference ?? 0),
      Math.abs(row.high ?? row.difference ?? 0),
    ]),
  );
  const limit = Math.min(1, Math.ceil(reach * 20) / 20);
  return axis(-limit, limit, 3);
}

/**
 * Plot with one lane per mark {value, low, high, series?, class?}; the first lane is level with the
 * first line of text in the row. `references` are dashed lines {value, class}.
 */
export function intervalPlot(marks, scale, references = [], zero = null) {
  const height = 2 * FIRST_LANE + (Math.max(1, marks.length) - 1) * LANE;
  // Lines continue from row to row; the cell clips them.
  const overshoot = { y1: -100, y2: height + 100 };
  const plot = h("svg", { height, "aria-hidden": "true", focusable: "false" });
  for (const tick of scale.ticks)
    plot.append(h("line", { class: "grid", x1: scale.at(tick), x2: scale.at(tick), ...overshoot }));
  if (known(zero))
    plot.append(h("line", { class: "zero", x1: scale.at(zero), x2: scale.at(zero), ...overshoot }));
  for (const { value, class: kind } of references.filter((item) => isWithin(scale, item.value)))
    plot.append(
      h("line", {
        class: `reference ${kind}`,
        x1: scale.at(value),
        x2: scale.at(value),
        ...overshoot,
      }),
    );
  marks.forEach((mark, lane) => {
    if (!known(mark?.value)) return;
    const y = FIRST_LANE + LANE * lane;
    const group = h("g", { class: mark.class ?? `series-${mark.series ?? 0}` });
    if (isWithin(scale, mark.value) && known(mark.low) && known(mark.high)) {
      group.append(
        h("line", {
          class: "interval",
          x1: scale.at(mark.low),
          x2: scale.at(mark.high),
          y1: y,
          y2: y,
        }),
      );
    }
    group.append(
      h(
        "svg",
        { x: scale.at(mark.value), y, overflow: "visible", width: 1, height: 1 },
        h("path", { class: "mark", d: shapeOf(mark, scale) }),
      ),
    );
    plot.append(group);
  });
  return plot;
}

/** The shape of a mark. A mark beyond the axis is a triangle at its end. */
function shapeOf({ value, series = 0 }, { low, high }) {
  if (value < low) return "M0,0L7,-5V5z";
  return value > high ? "M0,0L-7,-5V5z" : SHAPES[series];
}

/** Axis for the header of a column of plots. */
export function axisHead(scale, label = percent) {
  const plot = h("svg", { height: 16, "aria-hidden": "true", focusable: "false" });
  for (const tick of scale.ticks) {
    const share = (tick - scale.low) / (scale.high - scale.low);
    const anchor = share < 0.05 ? "start" : share > 0.95 ? "end" : "middle";
    plot.append(h("text", { x: scale.at(tick), y: 13, "text-anchor": anchor }, label(tick, 0)));
  }
  return plot;
}

export function seriesKey(series) {
  return h(
    "svg",
    { viewBox: "0 0 28 14", class: `series-${series}`, "aria-hidden": "true", focusable: "false" },
    h("line", { class: "interval", x1: 0, x2: 28, y1: 7, y2: 7 }),
    h(
      "svg",
      { x: 14, y: 7, overflow: "visible", width: 1, height: 1 },
      h("path", { class: "mark", d: SHAPES[series] }),
    ),
  );
}

export function referenceKey(kind) {
  return h(
    "svg",
    { viewBox: "0 0 14 14", class: "narrow", "aria-hidden": "true", focusable: "false" },
    h("line", { class: `reference ${kind}`, x1: 7, x2: 7, y1: 0, y2: 14 }),
  );
}

/** Bar with the shares of correct, incorrect, unreadable and failed. */
export function outcomeBar(evaluation) {
  const bar = h("div", { class: "share-bar", "aria-hidden": "true" });
  for (const { name } of Object.values(OUTCOMES)) {
    if (evaluation[name])
      bar.append(
        h("i", { class: name, width: `${(100 * evaluation[name]) / evaluation.responses}%` }),
      );
  }
  return bar;
}

/**
 * Chart with a line for each series over points {x (0..1), value, low, high, alarm?, doubtful?}.
 * `ticks` are {x, text}, `references` are {value, class}, and `text` formats a value. An alarm has a ring around its mark, and a
 * doubtful point is hollow.
 */
export function lineChart({ label, lines, scale, ticks, references = [], text = percent }) {
  const plot = h("svg", { role: "img", "aria-label": label });
  const left = 6;
  const x = (share) => `${left + share * (97 - left)}%`;
  const y = (value) =>
    `${92 - (90 * (Math.min(Math.max(value, scale.low), scale.high) - scale.low)) / (scale.high - scale.low)}%`;
  for (const tick of scale.ticks) {
    plot.append(
      h("line", { class: "grid", x1: x(0), x2: x(1), y1: y(tick), y2: y(tick) }),
      h("text", { x: x(0), y: y(tick), dx: -8, dy: "0.35em", "text-anchor": "end" }, text(tick, 0)),
    );
  }
  for (const { value, class: kind } of references.filter((item) => isWithin(scale, item.value)))
    plot.append(
      h("line", { class: `reference ${kind}`, x1: x(0), x2: x(1), y1: y(value), y2: y(value) }),
    );
  for (const tick of ticks)
    plot.append(
      h("text", { x: x(tick.x), y: "100%", dy: "-0.15em", "text-anchor": "middle" }, tick.text),
    );
  for (const [series, line] of lines.entries()) {
    // Keep intervals with the same x apart.
    const beside = DODGE * (series - (lines.length - 1) / 2);
    const group = h("g", { class: `series-${line.series}`, transform: `translate(${beside})` });
    line.points.forEach((point, index) => {
      const before = line.points[index - 1];
      if (before)
        group.append(
          h("line", {
            class: "path",
            x1: x(before.x),
            y1: y(before.value),
            x2: x(point.x),
            y2: y(point.value),
          }),
        );
    });
    for (const point of line.points) {
      if (known(point.low))
        group.append(
          h("line", {
            class: "interval",
            x1: x(point.x),
            x2: x(point.x),
            y1: y(point.low),
            y2: y(point.high),
          }),
        );
      if (point.alarm)
        group.append(
          h("circle", { class: `alarm ${point.alarm}`, cx: x(point.x), cy: y(point.value), r: 11 }),
        );
      group.append(
        h(
          "svg",
          { x: x(point.x), y: y(point.value), overflow: "visible", width: 1, height: 1 },
          h("path", { class: point.doubtful ? "mark hollow" : "mark", d: SHAPES[line.series] }),
        ),
      );
    }
    plot.append(group);
  }
  return h("div", { class: "figure" }, plot);
}

/** Label of a chart for screen readers. */
export const sameNumbersBelow = (title) => `${title}; the table below has the same numbers`;

/**
 * Chart of points {x, value, low, high, name, label, isBest}, sorted by x, with a logarithmic x
 * axis. A line connects the best points, which are named; the others are hollow.
 */
export function scatterPlot({ label, points, scale, format }) {
  const plot = h("svg", { role: "img", "aria-label": label });
  const [first, last] = [points[0].x, points.at(-1).x];
  // Prices that hardly differ stay together.
  const [middle, span] = [Math.sqrt(first * last), Math.max(Math.log(last / first), Math.LN2)];
  const x = (price) => `${52 + (80 * Math.log(price / middle)) / span}%`;
  const y = (value) =>
    `${92 - (88 * (Math.min(Math.max(value, scale.low), scale.high) - scale.low)) / (scale.high - scale.low)}%`;
  const line = (kind, [x1, y1], [x2, y2]) => h("line", { class: kind, x1, y1, x2, y2 });
  for (const tick of scale.ticks)
    plot.append(
      line("grid", ["6%", y(tick)], ["100%", y(tick)]),
      h(
        "text",
        { x: "6%", y: y(tick), dx: -8, dy: "0.35em", "text-anchor": "end" },
        percent(tick, 0),
      ),
    );
  const prices = format(first) === format(last) ? [middle] : [first, last];
  for (const price of prices)
    plot.append(
      h("text", { x: x(price), y: "100%", dy: "-0.15em", "text-anchor": "middle" }, format(price)),
    );
  const best = points.filter((point) => point.isBest);
  for (const [index, point] of best.entries()) {
    const before = best.slice(0, index).findLast((other) => other.line === point.line);
    if (before)
      plot.append(line("path", [x(before.x), y(before.value)], [x(point.x), y(point.value)]));
  }
  for (const point of points) {
    const at = [x(point.x), y(point.value)];
    if (known(point.low))
      plot.append(line("interval", [at[0], y(point.low)], [at[0], y(point.high)]));
    plot.append(
      h(
        "svg",
        { x: at[0], y: at[1], overflow: "visible", width: 1, height: 1 },
        h("title", {}, point.label),
        h("path", { class: point.isBest ? "mark" : "mark hollow", d: SHAPES[0] }),
      ),
    );
    // The line of the best points rises to the right, so it is never below right or above left.
    const isLeft = point.x < middle;
    const beside = isLeft ? { dx: 8, dy: "1.2em" } : { dx: -8, dy: "-0.5em", "text-anchor": "end" };
    if (point.isBest) plot.append(h("text", { x: at[0], y: at[1], ...beside }, point.name));
  }
  return h("div", { class: "figure narrow series-0" }, plot);
}
