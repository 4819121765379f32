// Two evaluations compared question by question: B minus A.

import { go, link } from "./address.js";
import { outcomeMark } from "./data.js";
import { h, select } from "./dom.js";
import { count, known, NONE, percent, plural, points, probability } from "./format.js";
import { differenceAxis } from "./marks.js";
import { idAndText, questionRows, rememberListing } from "./questions.js";
import { exportButtons } from "./exports.js";
import { dataTable, heading, ordered } from "./tables.js";
import { comparisonOf, differenceTable, isSignificant, pointsInterval } from "./differences.js";
import { byTrack, isBlocked, mainScore, trackTitle } from "./scores.js";

export function compareView({ benchmark, params, details }) {
  if (benchmark.evaluations.length < 2)
    return [
      h(
        "p",
        { class: "notice" },
        "There is only one evaluation. Run a second one of the same benchmark to compare them.",
      ),
    ];
  const { a, b } = chosenPair(benchmark, params);
  const options = benchmark.evaluations.map((item) => [item.name, item.name]);
  const turn = (changes) => go(link("compare", { a: a.name, b: b.name, ...changes }));
  const controls = h(
    "div",
    { class: "controls" },
    select("A (before)", options, a.name, (name) => turn({ a: name })),
    select("B (after)", options, b.name, (name) => turn({ b: name })),
    h("button", { type: "button", onclick: () => turn({ a: b.name, b: a.name }) }, "Swap A and B"),
  );
  if (a.index === b.index)
    return [controls, h("p", { class: "notice" }, "A and B are the same evaluation.")];
  const answers = (item) => (row) => row.answers[item.index];
  const text = (item) => (row) => details?.questions[row.index]?.answers?.[item.index]?.[0];
  const flips = flipSections(
    benchmark,
    details,
    {
      before: answers(a),
      after: answers(b),
      beforeTitle: a.name,
      afterTitle: b.name,
      beforeText: text(a),
      afterText: text(b),
      show: `${a.name},${b.name}`,
    },
    params.get("flips"),
    (key) => turn({ flips: key }),
  );
  return [
    controls,
    ...citationNotice(a, b),
    ...conclusion(benchmark, a, b),
    ...specificationSection(a, b),
    ...flips,
    ...differenceSection(benchmark, a, b),
  ];
}

/** A notice if the score of A or B must not be cited. */
function citationNotice(a, b) {
  const blocked = [a, b].filter(isBlocked);
  if (!blocked.length) return [];
  const reasons = blocked.flatMap((item) =>
    item.findings
      .filter((finding) => finding.status === "blocked")
      .map((finding) => h("li", {}, h("strong", {}, item.name), `: ${finding.summary}`)),
  );
  return [h("div", { class: "notice" }, "Do not cite this comparison:", h("ul", {}, reasons))];
}

function chosenPair(benchmark, params) {
  const named = (name) => benchmark.evaluations.find((item) => item.name === name);
  const seen = benchmark.evaluations.filter((item) => !item.baseline);
  const [, pair] = [
    ...byTrack(seen),
    ...byTrack(benchmark.evaluations),
    ["", benchmark.evaluations],
  ].find(([, evaluations]) => evaluations.length > 1);
  const [best, second] = ordered(pair, mainScore, true);
  return { a: named(params.get("a")) ?? second, b: named(params.get("b")) ?? best };
}

/** Sentences that say which evaluation is better, and whether the difference is significant. */
function conclusion(benchmark, a, b) {
  const comparison = comparisonOf(benchmark, b.index, a.index);
  if (!comparison && trackTitle(a) !== trackTitle(b))
    return [
      h(
        "p",
        { class: "notice" },
        `A is ${trackTitle(a)} and B ${trackTitle(b)}, and they differ in other settings too, so `,
        "their difference has several causes. The questions that differ are listed below.",
      ),
    ];
  if (!comparison)
    return [
      h(
        "p",
        { class: "notice" },
        "This page does not compare this pair. Run ",
        h("code", {}, `videomme compare ${a.name} ${b.name}`),
        ". The questions that differ are listed below.",
      ),
    ];
  const { overall } = comparison;
  return [
    h(
      "ul",
      { class: "lead" },
      h("li", {}, differenceSentence(overall, (overall.difference > 0 ? b : a).name)),
      h(
        "li",
        { class: "soft" },
        `${percent(comparison.flip_rate)}% of the answers changed: `,
        `${count(comparison.won)} won, ${count(comparison.lost)} lost`,
        comparison.failed
          ? `; without ${plural(comparison.failed, "question")} that failed in A or B`
          : "",
        ".",
      ),
    ),
  ];
}

/** "x is better by 9.7 points …" or "No significant difference …". */
function differenceSentence(overall, better) {
  const start = isSignificant(overall, true)
    ? [
        h("strong", {}, better),
        ` is better by ${points(Math.abs(overall.difference)).replace("+", "")} points`,
      ]
    : [h("strong", {}, "No significant difference"), `: ${points(overall.difference)} points`];
  return [
    start,
    ` of ${overall.by.toLowerCase()} (95% CI ${pointsInterval(overall)}, p ${probability(overall.p)}, `,
    `${plural(overall.n, overall.by === "Accuracy" ? "question" : "group")} answered by both).`,
  ];
}

/** The paired difference of every subset, by p-value. */
function differenceSection(benchmark, a, b) {
  const comparison = comparisonOf(benchmark, b.index, a.index);
  if (!comparison) return [];
  if (!comparison.marginals)
    return [
      h("h2", {}, "Difference by subset"),
      h(
        "p",
        {},
        "This page compares only pairs with the best evaluation by subset. For this pair, run ",
        h("code", {}, `videomme compare ${a.name} ${b.name}`),
        ".",
      ),
    ];
  const { overall } = comparison;
  const marginals = ordered(comparison.marginals, (row) => row.p, false);
  const significant = marginals.filter((row) => row.significant).length;
  const table = differenceTable({
    label:
      `${b.name} minus ${a.name} in points, paired and clustered by video. ` +
      `${significant ? plural(significant, "subset is", "subsets are") : "No subset is"} ` +
      `significant after Benjamini–Hochberg over ${count(marginals.length)}`,
    rows: [overall, ...marginals],
    scale: differenceAxis([overall, ...marginals]),
    marked: true,
    step: 15,
  });
  return [
    heading("Difference by subset", exportButtons(`compare-${a.name}-${b.name}`, table)),
    table.element,
  ];
}

/** Settings that differ between A and B. */
function specificationSection(a, b) {
  const all = [...new Set([...Object.keys(a.spec), ...Object.keys(b.spec)])];
  const differs = (path) => JSON.stringify(a.spec[path]) !== JSON.stringify(b.spec[path]);
  // A setting can be one value in A and several in B.
  const hasParts = (path) => all.some((other) => other.startsWith(`${path}.`));
  const paths = all.filter((path) => differs(path) && !hasParts(path));
  const text = (value) =>
    value === undefined ? NONE : typeof value === "string" ? value : JSON.stringify(value);
  const body = paths.length
    ? dataTable({
        label: "Settings that differ",
        caption: "All other settings are equal",
        step: Infinity,
        rows: paths.map((path) => ({ path })),
        columns: [
          {
            key: "path",
            title: "Setting",
            class: "name",
            value: (row) => row.path,
            cell: (row) => h("code", {}, row.path),
          },
          { key: "a", title: a.name, value: (row) => text(a.spec[row.path]) },
          { key: "b", title: b.name, value: (row) => text(b.spec[row.path]) },
        ],
      }).element
    : h("p", {}, "None: both evaluations have the same settings.");
  return [h("h2", {}, "Settings that differ"), body];
}

const FLIPS = [
  ["lost", "Correct before, not after"],
  ["won", "Correct after, not before"],
  ["other", "Not correct in either, but different"],
  ["failed", "Failed on one side"],
  ["all", "All that differ"],
];

/**
 * Questions with different outcomes, side by side. `sides` has the answers, before(row) and
 * after(row), and the responses, beforeText(row) and afterText(row).
 */
export function flipSections(benchmark, details, sides, requested, onchange) {
  const rows = questionRows(benchmark, details)
    .map((row) => ({ ...row, flip: flipOf(sides.before(row), sides.after(row)) }))
    .filter((row) => row.flip);
  const tally = Object.fromEntries(
    FLIPS.map(([key]) => [key, rows.filter((row) => key === "all" || row.flip === key).length]),
  );
  const chosen = requested ?? (tally.lost ? "lost" : "all");
  const side = (key, title, answers, text) => ({
    key,
    title,
    class: "side-by-side",
    headClass: "own-name",
    value: (row) =>
      answers(row)
        .map(({ name, letter }) => `${name} ${letter}`)
        .join(" "),
    cell: (row) => [answers(row).map(outcomeMark), " ", excerpt(text(row))],
  });
  const table = dataTable({
    label: `${plural(tally[chosen], "question")}: ${FLIPS.find(([key]) => key === chosen)[1].toLowerCase()}`,
    rows: rows.filter((row) => chosen === "all" || row.flip === chosen),
    sticky: true,
    step: 25,
    columns: [
      ...idAndText(details, { show: sides.show }),
      { key: "answer", title: "Answer", fold: 2, value: (row) => row.answer },
      {
        key: "flip",
        title: "Change",
        class: "nowrap",
        value: (row) => row.flip,
        cell: (row) =>
          h(
            "span",
            { class: { won: "better", lost: "worse" }[row.flip] },
            { won: "▲ won", lost: "▼ lost", other: "◇ other", failed: "! failed" }[row.flip],
          ),
      },
      side("before", sides.beforeTitle, sides.before, sides.beforeText),
      side("after", sides.afterTitle, sides.after, sides.afterText),
    ],
  });
  rememberListing({
    table,
    benchmark: benchmark.name,
    address: location.hash || link("compare"),
  });
  const control = select(
    "Show",
    FLIPS.filter(([key]) => tally[key] || key === chosen).map(([key, title]) => [
      key,
      `${title} (${count(tally[key])})`,
    ]),
    chosen,
    onchange,
  );
  if (!tally.all)
    return [
      h("h2", {}, "Questions that differ"),
      h("p", {}, "None: both have the same letter for every question."),
    ];
  return [
    heading("Questions that differ", exportButtons("flips", table)),
    h("div", { class: "controls" }, control),
    table.element,
  ];
}

/** The kind of change of a question, or null if both outcome and letter are the same. */
function flipOf(before, after) {
  if (!before.length || !after.length) return null;
  const failed = (answers) => answers.some((answer) => answer.name === "failed");
  if (failed(before) !== failed(after)) return "failed";
  const share = (answers) =>
    answers.filter((answer) => answer.name === "correct").length / answers.length;
  if (share(after) > share(before)) return "won";
  if (share(after) < share(before)) return "lost";
  const text = (answers) => answers.map((answer) => answer.name + answer.letter).join(" ");
  return text(before) === text(after) ? null : "other";
}

/** The beginning of a response; `text` is an answer of the details, or a text. */
function excerpt(text) {
  if (!text) return null;
  const whole = typeof text === "string" || text.parts ? text : (text.raw ?? text.error);
  if (!known(whole)) return null;
  const start =
    typeof whole === "string" ? whole : whole.parts.map((part) => part.text ?? " … ").join("");
  return start.trim().length > 2
    ? h("span", { class: "clip soft", dir: "auto" }, start.slice(0, 240))
    : null; // the outcome already shows a response that is a letter
}
