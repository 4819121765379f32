// All questions in one table, with filters, search, sorting and keyboard navigation.

import { amend, link } from "./address.js";
import { facetsOf, outcomeMark, OUTCOMES, readAnswers } from "./data.js";
import { announce, checkbox, h, select } from "./dom.js";
import { compareText, count, known, plural } from "./format.js";
import { exportButtons } from "./exports.js";
import { dataTable, heading } from "./tables.js";
import { seriesPicker, shownEvaluations } from "./picker.js";

/** Number of rows that a search can draw between two keystrokes. */
const LISTED_QUESTIONS = 40;

export function questionsView({ benchmark, params, details }) {
  const shown = shownEvaluations(benchmark, params);
  const facetKeys = facetsOf(benchmark).map(([key]) => key);
  const criteria = Object.fromEntries(
    ["q", "outcome", "of", "different", ...facetKeys].map((key) => [key, params.get(key) ?? ""]),
  );
  const rows = questionRows(benchmark, details);
  const table = dataTable({
    label: "Questions",
    columns: questionColumns(benchmark, shown, details),
    rows: [],
    step: LISTED_QUESTIONS,
    sticky: true,
    sort: params.get("sort") ?? undefined,
    onSort: (sort) => {
      amend({ sort });
      listing.address = location.hash;
    },
  });
  const refresh = (changes = {}) => {
    Object.assign(criteria, changes);
    amend(changes);
    const selected = selectQuestions(rows, criteria, shown, facetKeys);
    const matches = `${count(selected.length)} of ${plural(rows.length, "question")}`;
    table.replace(selected, matches);
    nothing.hidden = selected.length > 0;
    rememberListing({ table, benchmark: benchmark.name, address: location.hash });
    announce(matches);
  };
  const nothing = h(
    "p",
    { class: "notice" },
    "No question matches. ",
    h("a", { href: link("questions") }, "Remove the filters"),
    ".",
  );
  const view = [
    benchmark.evaluations.length > 1 ? seriesPicker(benchmark, params, "questions") : null,
    questionControls(benchmark, shown, criteria, refresh),
    heading("Questions", exportButtons("questions", table)),
    table.element,
    nothing,
    h("p", { class: "soft keys" }, "Keys: / to search, ↑ and ↓ to move, Enter to open."),
  ];
  refresh();
  return view;
}

/**
 * The last table of questions, {table, benchmark, address}, for previous, next and back of a
 * question, and for the arrow keys.
 */
export let listing = null;

export function rememberListing(list) {
  listing = list;
}

export function questionRows(benchmark, details) {
  const { questions, results } = benchmark;
  return questions.id.map((id, index) => {
    const row = {
      id,
      index,
      video: questions.video[index],
      answer: questions.answer[index],
      answers: results.map((cells) => readAnswers(cells[index])),
    };
    for (const [key] of facetsOf(benchmark)) row[key] = questions[key][index];
    row.words = [
      id,
      row.video,
      ...facetsOf(benchmark).map(([key]) => row[key]),
      details?.questions[index]?.question ?? "",
      ...(details?.questions[index]?.options ?? []),
    ]
      .join(" ")
      .toLowerCase();
    return row;
  });
}

/** Columns with the id of a question and its text, if the page has texts. */
export function idAndText(details, parameters = {}) {
  return [
    {
      key: "id",
      title: "Question",
      class: "id",
      value: (row) => row.id,
      cell: (row) => h("a", { href: link("question", { id: row.id, ...parameters }) }, row.id),
    },
    details?.questions.some((item) => item.question) && {
      key: "text",
      title: "Text",
      class: "text",
      fold: 1,
      value: (row) => details.questions[row.index].question,
      cell: (row) =>
        h("span", { class: "clip", dir: "auto" }, details.questions[row.index].question),
    },
  ].filter(Boolean);
}

function questionColumns(benchmark, shown, details) {
  return [
    ...idAndText(details),
    ...facetsOf(benchmark)
      .filter(([key]) => key !== "domain")
      .map(([key, title], index) => ({ key, title, fold: 2 + index, value: (row) => row[key] })),
    { key: "answer", title: "Answer", value: (row) => row.answer },
    ...shown.map((item) => ({
      key: item.name,
      title: item.name,
      headClass: "own-name",
      value: (row) =>
        row.answers[item.index]
          .map((answer) => `${answer.name}${answer.letter ? ` ${answer.letter}` : ""}`)
          .join(" "),
      cell: (row) => row.answers[item.index].map(outcomeMark),
    })),
  ];
}

function selectQuestions(rows, criteria, shown, facetKeys) {
  const needed = searchWords(criteria.q);
  const considered = criteria.of ? shown.filter((item) => item.name === criteria.of) : shown;
  return rows.filter((row) => {
    if (!needed.every((word) => row.words.includes(word))) return false;
    if (facetKeys.some((key) => criteria[key] && String(row[key]) !== criteria[key])) return false;
    if (
      criteria.outcome &&
      !considered.some((item) =>
        row.answers[item.index].some((answer) => answer.name === criteria.outcome),
      )
    )
      return false;
    return !criteria.different || isDifferent(row, shown);
  });
}

/** The words of a search; text in double quotes is one word. */
export function searchWords(text) {
  return (text.toLowerCase().match(/"[^"]+"|\S+/g) ?? [])
    .map((word) => word.replaceAll('"', ""))
    .filter(Boolean);
}

/** True if the shown evaluations have different outcomes for this question. */
function isDifferent(row, shown) {
  const outcomes = shown.map((item) =>
    row.answers[item.index].map((answer) => answer.name).join(" "),
  );
  return new Set(outcomes).size > 1;
}

function questionControls(benchmark, shown, criteria, refresh) {
  const outcomes = [["", "Any"], ...Object.values(OUTCOMES).map(({ name }) => [name, name])];
  const facet = ([key, title]) => {
    const values = [...new Set(benchmark.questions[key].filter(known))].toSorted((a, b) =>
      compareText(String(a), String(b)),
    );
    return select(
      title,
      [["", "All"], ...values.map((value) => [String(value), String(value)])],
      criteria[key],
      (value) => refresh({ [key]: value }),
    );
  };
  const search = h("input", {
    type: "search",
    id: "search",
    value: criteria.q,
    autocomplete: "off",
    spellcheck: "false",
    oninput: (event) => refresh({ q: event.target.value }),
  });
  return h(
    "div",
    { class: "controls" },
    h("label", {}, "Search", search),
    select("Outcome", outcomes, criteria.outcome, (value) => refresh({ outcome: value })),
    shown.length > 1 &&
      select(
        "Outcome of",
        [["", "Any shown"], ...shown.map((item) => [item.name, item.name])],
        criteria.of,
        (value) => refresh({ of: value }),
      ),
    matchMedia("(max-width: 40rem)").matches
      ? h(
          "details",
          { open: facetsOf(benchmark).some(([key]) => criteria[key]) },
          h("summary", {}, "More filters"),
          facetsOf(benchmark).map(facet),
        )
      : facetsOf(benchmark).map(facet),
    shown.length > 1 &&
      checkbox("Only different outcomes", Boolean(criteria.different), (checked) =>
        refresh({ different: checked ? "1" : "" }),
      ),
  );
}
