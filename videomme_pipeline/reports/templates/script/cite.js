// The text to write when a score is cited: the figure with an interval, the settings, and BibTeX.

import { go, link } from "./address.js";
import { h, select } from "./dom.js";
import { copyButton } from "./exports.js";
import { atLeast, count, day, interval, known, scoreText } from "./format.js";
import { ordered } from "./tables.js";
import { isBlocked, mainInterval, mainScore, trackTitle } from "./scores.js";

/** A box for one evaluation: the evaluation in the URL, or the best evaluation. */
export function citationBox(benchmark, params) {
  const ranked = ordered(benchmark.evaluations, mainScore, true);
  const item = ranked.find((evaluation) => evaluation.name === params.get("of")) ?? ranked[0];
  return [
    h("h2", {}, "Cite a score"),
    h(
      "div",
      { class: "controls" },
      select(
        "Evaluation",
        ranked.map(({ name }) => [name, name]),
        item.name,
        (name) => go(link("leaderboard", { of: name }, [...params.keys()])),
      ),
    ),
    isBlocked(item)
      ? h("p", { class: "notice" }, "Do not cite this score. The reasons are in the next table.")
      : null,
    h(
      "div",
      { class: "copy-boxes" },
      copyBox("Score and settings", `${scoreSentences(benchmark, item)}\n\n${settingLines(item)}`),
      benchmark.bibtex ? copyBox("BibTeX", benchmark.bibtex) : null,
    ),
  ];
}

function copyBox(title, text) {
  return h(
    "div",
    {},
    h(
      "p",
      {},
      h("strong", {}, title),
      " ",
      copyButton("Copy", title, () => text),
    ),
    h("pre", { class: "model-text", tabindex: 0 }, text),
  );
}

function scoreSentences(benchmark, item) {
  const [value, low, high] = mainInterval(item);
  const measure = known(item.group_score) ? "group_score" : "accuracy";
  const name = item.mean ? "mean accuracy" : measure.replace("_", " ");
  return (
    `${item.model} on ${benchmark.title}: ${name} ${atLeast(item.failed, scoreText(measure, value))} ` +
    `(95% CI ${interval(low, high)}, clustered by video) on ${count(item.questions)} questions ` +
    `about ${count(item.videos)} videos, ${trackTitle(item)}; ` +
    `sampling ${item.sampling}, prompt ${item.template ?? "unknown"}, reader ${item.reader}; ` +
    `answered ${day(item.answered_at)}. Fingerprint ${item.fingerprint}.`
  );
}

/** One line for each setting that can change the score, and for each server that answered. */
function settingLines(item) {
  const settings = Object.entries(item.public_spec)
    .filter(([, value]) => known(value))
    .map(([key, value]) => `${key}: ${typeof value === "string" ? value : JSON.stringify(value)}`);
  return [...settings, ...item.servers.map((server) => `server: ${server}`)].join("\n");
}
