// Score against the cost of an answer, with a line of the evaluations that no other evaluation beats.

import { go, link } from "./address.js";
import { h, select } from "./dom.js";
import { atLeast, compact, dollars, known, percent, plural, seconds } from "./format.js";
import { scatterPlot, zoomedAxis } from "./marks.js";
import { ordered } from "./tables.js";
import { byTrack, mainInterval, mainScore, trackTitle } from "./scores.js";

const perAnswer = (item, total) => (known(total) ? total / item.responses : null);

const PRICES = {
  cost: {
    title: "Cost per answer",
    of: (item) => perAnswer(item, item.cost_dollars),
    format: dollars,
  },
  latency: { title: "Median latency", of: (item) => item.latency_p50_seconds, format: seconds },
  tokens: {
    title: "Prompt tokens per answer",
    of: (item) => perAnswer(item, item.prompt_tokens),
    format: compact,
  },
};

/** The chart of the evaluations that saw the videos, or null unless two have a price. */
export function scatterSection(benchmark, params) {
  const priced = ({ of }) =>
    benchmark.evaluations.filter(
      (item) => !item.baseline && of(item) > 0 && known(mainScore(item)),
    );
  const keys = Object.keys(PRICES).filter((key) => priced(PRICES[key]).length > 1);
  if (!keys.length) return null;
  const key = keys.includes(params.get("price")) ? params.get("price") : keys[0];
  const { title, of, format } = PRICES[key];
  const cheapestFirst = ordered(ordered(priced(PRICES[key]), mainScore, true), of, false);
  const best = byTrack(cheapestFirst).flatMap(([, items]) => unbeaten(items));
  const points = together(
    cheapestFirst.map((item) => {
      const [value, low, high] = mainInterval(item);
      const place = `${atLeast(item.failed, percent(value))}, ${format(of(item))}`;
      const isBest = best.includes(item);
      const line = trackTitle(item);
      return { x: of(item), value, low, high, name: item.name, place, isBest, line };
    }),
  );
  return [
    h("h2", {}, `Score and ${title.toLowerCase()}`),
    keys.length > 1 &&
      h(
        "div",
        { class: "controls" },
        select(
          "Horizontal axis",
          keys.map((price) => [price, PRICES[price].title]),
          key,
          (price) => go(link("leaderboard", { price }, [...params.keys()])),
        ),
      ),
    scatterPlot({
      label: `Score and ${title.toLowerCase()}. ${points.map((point) => point.label).join("; ")}`,
      points,
      scale: zoomedAxis(points),
      format,
    }),
    h(
      "p",
      { class: "soft" },
      `The Pareto line of each track connects the ${plural(best.length, "evaluation")} that no `,
      "cheaper one of its track equals; the others are hollow. Evaluations with the same numbers share a point. Vertical ",
      "lines are 95% CIs. The score axis is zoomed to the data, the other one is logarithmic.",
    ),
  ];
}

/** The points, with one point for all evaluations whose printed numbers are the same. */
function together(points) {
  return [...new Set(points.map(({ place }) => place))].map((place) => {
    const same = points.filter((point) => point.place === place);
    const shown = same.find((point) => point.isBest) ?? same[0];
    const names = same.map(({ name }) => name);
    const name = names.length > 2 ? `${shown.name} and ${names.length - 1} more` : names.join(", ");
    return { ...shown, name, label: `${names.join(", ")}: ${place}` };
  });
}

/** The evaluations that are better than every cheaper one; `items` are sorted by price. */
function unbeaten(items) {
  let most = -Infinity;
  return items.filter((item) => {
    const isBetter = mainScore(item) > most;
    most = Math.max(most, mainScore(item));
    return isBetter;
  });
}
