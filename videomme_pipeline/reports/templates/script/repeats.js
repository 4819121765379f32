// Evaluations that asked each question several times: how much their answers agree.

import { exportButtons } from "./exports.js";
import { count, interval, percent, plural } from "./format.js";
import { h } from "./dom.js";
import { dataTable, heading } from "./tables.js";

/** The mean, majority vote, pass@k and flip rate of repeated evaluations; null if there are none. */
export function repeatsSection(benchmark) {
  const rows = benchmark.evaluations.filter((item) => item.repeats);
  if (!rows.length) return null;
  const most = Math.max(...rows.map((item) => item.repeats.count));
  const estimate = (key, title, estimateOf, hint) => ({
    key,
    title,
    number: true,
    hint,
    value: (row) => estimateOf(row)?.value,
    cell: (row) => estimateCell(estimateOf(row)),
  });
  const table = dataTable({
    label: "Repeated questions, with 95% CIs clustered by video",
    rows,
    sticky: true,
    step: Infinity,
    columns: [
      { key: "name", title: "Evaluation", class: "name", value: (row) => row.name },
      { key: "repeats", title: "Repeats", number: true, value: (row) => row.repeats.count },
      estimate(
        "accuracy",
        "Mean accuracy (%)",
        (row) => ({ value: row.accuracy, low: row.accuracy_low, high: row.accuracy_high }),
        "Over all repeats; the accuracy of every other table",
      ),
      estimate(
        "majority_vote",
        "Majority vote (%)",
        (row) => row.repeats.majority_vote,
        "Accuracy of the most frequent letter of each question",
      ),
      ...Array.from({ length: most - 1 }, (_, index) => index + 2).map((k) =>
        estimate(
          `pass_at_${k}`,
          `pass@${k} (%)`,
          (row) => row.repeats.pass_at_k.find((pass) => pass.k === k),
          `Questions with at least one correct answer among ${k} repeats, of those asked ${k} times`,
        ),
      ),
      estimate(
        "flip_rate",
        "Flip rate (%)",
        (row) => row.repeats.flip_rate,
        "Probability that two repeats of a question have different answers",
      ),
    ],
  });
  return [heading("Repeats", exportButtons("repeats", table)), table.element];
}

function estimateCell(estimate) {
  const { questions, all_questions: all } = estimate ?? {};
  return [
    h("span", { class: "strong" }, percent(estimate?.value)),
    h("small", { class: "below" }, interval(estimate?.low, estimate?.high)),
    questions < all &&
      h("small", { class: "below" }, `${count(questions)} of ${plural(all, "question")}`),
  ];
}
