// The choice of the evaluations that a view shows, each with its mark.

import { go, link } from "./address.js";
import { h } from "./dom.js";
import { known, scoreText } from "./format.js";
import { MAX_SHOWN, referenceKey, seriesKey } from "./marks.js";
import { bestBaseline, chanceOf, mainScore } from "./scores.js";
import { ordered } from "./tables.js";

/** The evaluations to show: those chosen in the URL, or the best. */
export function shownEvaluations(benchmark, params) {
  const requested = params.get("show")?.split(",") ?? [];
  const chosen = benchmark.evaluations.filter((item) => requested.includes(item.name));
  const fallback = ordered(
    benchmark.evaluations.filter((item) => !item.baseline),
    mainScore,
    true,
  );
  const shown = chosen.length ? chosen : fallback.length ? fallback : benchmark.evaluations;
  return shown.slice(0, chosen.length ? MAX_SHOWN : 4);
}

export function seriesPicker(benchmark, params, view, shown = shownEvaluations(benchmark, params)) {
  const names = shown.map((item) => item.name);
  return h(
    "fieldset",
    { class: "legend" },
    h(
      "legend",
      {},
      benchmark.evaluations.length > 1
        ? `Evaluations shown (up to ${MAX_SHOWN})`
        : "Evaluation shown",
    ),
    ordered(benchmark.evaluations, mainScore, true).map((item) => {
      const series = names.indexOf(item.name);
      const control = h("input", {
        type: "checkbox",
        disabled: series < 0 && names.length >= MAX_SHOWN,
        onchange: (event) => {
          const next = event.target.checked
            ? [...names, item.name]
            : names.filter((name) => name !== item.name);
          go(
            link(
              view,
              { show: next.join(",") },
              ["benchmark", ...params.keys()].filter((key) => key !== "show"),
            ),
          );
        },
      });
      control.checked = series >= 0;
      return h("label", {}, control, series >= 0 ? seriesKey(series) : null, item.name);
    }),
    view === "breakdowns" ? chanceKeys(benchmark) : null,
  );
}

function chanceKeys(benchmark) {
  const measures = [...new Set(benchmark.breakdowns.map((item) => item.measure))].filter(
    (measure) => known(chanceOf(benchmark, measure)),
  );
  const blind = bestBaseline(benchmark);
  return [
    measures.map((measure) =>
      h(
        "span",
        { class: "key" },
        referenceKey("chance"),
        `chance ${scoreText(measure, chanceOf(benchmark, measure))}`,
      ),
    ),
    blind &&
      h(
        "span",
        { class: "key" },
        referenceKey("blind"),
        `best baseline (${blind.name}) on the same questions`,
      ),
  ];
}
