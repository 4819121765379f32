// The data inside the page: gzip in base64, in two parts. The summary has all numbers and is read
// first; the details have all texts.

import { h } from "./dom.js";

export const OUTCOMES = {
  c: { name: "correct", sign: "✓" },
  i: { name: "incorrect", sign: "✗" },
  u: { name: "unreadable", sign: "?" },
  f: { name: "failed", sign: "!" },
};

export async function unpack(id) {
  const holder = document.getElementById(id);
  const text = holder.textContent.trim();
  holder.remove();
  if (!text) return {};
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

/** One answer cell, "cB", or "cB iA" for repeats, as [{name, sign, letter}]. */
export function readAnswers(cell) {
  if (!cell) return [];
  return cell.split(" ").map((item) => ({ ...OUTCOMES[item[0]], letter: item.slice(1) }));
}

export function outcomeMark(answer) {
  const spoken = answer.letter ? `${answer.name}, read ${answer.letter}` : answer.name;
  return h(
    "span",
    { class: `outcome ${answer.name}` },
    h("span", { "aria-hidden": "true" }, answer.sign, answer.letter ? ` ${answer.letter}` : ""),
    h("span", { class: "visually-hidden" }, spoken),
  );
}

/** The facets that the questions of a benchmark have, in order: [column, title]. */
export function facetsOf(benchmark) {
  return benchmark.facets.filter(([key]) => benchmark.questions[key]);
}

/** The texts by question, in the order of the summary. The page stores texts by video. */
export function arrange(details, benchmarks) {
  const arranged = {};
  for (const { name, questions } of benchmarks) {
    const videos = details[name]?.videos;
    if (!videos) continue;
    arranged[name] = {
      questions: questions.id.map((id, index) => videos[questions.video[index]].questions[id]),
      inputs: Object.fromEntries(
        Object.entries(videos).map(([video, texts]) => [video, texts.inputs]),
      ),
      videos: Object.fromEntries(
        Object.entries(videos).map(([video, texts]) => [video, texts.video]),
      ),
      runs: details[name].runs,
    };
  }
  return arranged;
}
