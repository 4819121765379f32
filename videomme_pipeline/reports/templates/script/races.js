// Races of two evaluations: the difference after each look, until it was known.

import { go, link } from "./address.js";
import { h, select } from "./dom.js";
import { exportButtons } from "./exports.js";
import { count, known, points, probability } from "./format.js";
import { pointsInterval } from "./differences.js";
import { differenceAxis, lineChart, sameNumbersBelow } from "./marks.js";
import { dataTable, heading, numberColumn } from "./tables.js";

export function racesView({ benchmark, params }) {
  const races = [...Map.groupBy(benchmark.races, raceName)];
  const [name, looks] = races.find(([other]) => other === params.get("race")) ?? races[0];
  const last = looks.at(-1);
  const x = (videos) => 0.02 + (0.96 * videos) / last.all_videos;
  const bounds = looks.filter((look) => known(look.boundary));
  const bound = (sign) => ({
    series: 5,
    points: bounds.map((look) => ({ x: x(look.videos), value: sign * look.boundary })),
  });
  const table = looksTable(looks);
  const margins = [last.margin, -last.margin];
  return [
    heading(
      "Difference by videos asked",
      races.length > 1 &&
        select(
          "Race",
          races.map(([other]) => [other, other]),
          name,
          (chosen) => go(link("races", { race: chosen }, ["benchmark"])),
        ),
    ),
    h(
      "p",
      {},
      h("strong", {}, `${last.candidate} against ${last.baseline}: ${last.verdict}`),
      `, ${points(last.difference)} points after ${count(last.videos)} of `,
      `${count(last.all_videos)} videos. ${ENDS[last.stop] ?? "The race was stopped."}`,
    ),
    lineChart({
      label: sameNumbersBelow(`Difference by videos asked for ${name}`),
      scale: differenceAxis([...looks, ...margins.map((value) => ({ difference: value }))]),
      text: points,
      references: [
        { value: 0, class: "chance" },
        ...margins.map((value) => ({ value, class: "published" })),
      ],
      ticks: looks.map((look) => ({ x: x(look.videos), text: count(look.videos) })),
      lines: [
        bound(1),
        {
          series: 0,
          points: looks.map((look) => ({
            x: x(look.videos),
            value: look.difference,
            low: look.low,
            high: look.high,
            alarm: look.stop && (look.stop === "decided" ? "error" : "warn"),
          })),
        },
        bound(-1),
      ],
    }),
    h(
      "p",
      { class: "soft" },
      "Vertical lines are 95% CIs. A difference beyond the crosses is found by that look. Dashed ",
      "lines are 0 and the margin. A ring marks the end of the race: solid if it was decided.",
    ),
    heading("Looks", exportButtons("races", table)),
    table.element,
  ];
}

const ENDS = {
  decided: "The difference is known, so the race stopped.",
  "all videos": "All videos were asked.",
  budget: "The next look would have exceeded a limit.",
};

const raceName = (look) => `${look.baseline} and ${look.candidate}`;

function looksTable(looks) {
  return dataTable({
    label: "All looks",
    columns: [
      numberColumn("videos", "Videos", (row) => row.videos, count),
      numberColumn("questions", "Questions", (row) => row.questions, count, { fold: 4 }),
      numberColumn("failed", "Failed", (row) => row.failed, count, { fold: 5 }),
      numberColumn("difference", "Difference", (row) => row.difference, points),
      {
        key: "interval",
        title: "95% CI",
        number: true,
        fold: 2,
        cell: pointsInterval,
      },
      numberColumn("boundary", "Found from", (row) => row.boundary, points, { fold: 3 }),
      numberColumn("p_value", "p", (row) => row.p_value, probability),
      { key: "verdict", title: "Verdict", value: (row) => row.verdict },
      { key: "stop", title: "End", fold: 1, value: (row) => row.stop ?? "" },
    ],
    rows: looks,
  });
}
