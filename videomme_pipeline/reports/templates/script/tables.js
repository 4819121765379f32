// The table of every view: sortable by any column, shown in steps, with a CSV download.
// A column: {key, title, value(row), cell(row)?, number?, class?, head?, mark?}. `value` sorts
// and is written to the CSV, `cell` is shown, and `csvOnly` columns are not shown.

import { announce, download, h } from "./dom.js";
import { compareText, count, known, NONE } from "./format.js";

const STEP = 100;

/**
 * `groups` keeps groups of rows together under any sorting: `of(row)` is the number of the row's
 * group, `titles[number]` the line above it, if any.
 */
export function dataTable({
  label,
  caption = label,
  columns,
  rows,
  sort,
  rowClass,
  groups = null,
  sticky = false,
  onSort,
  step = STEP,
}) {
  let [sortKey, descending] = parseSort(sort);
  let shown = step;
  let sorted = rows;
  const drawn = columns.filter((column) => !column.csvOnly);
  const heads = drawn.map((column) => head(column));
  const captionText = h("span", { class: "caption" }, caption);
  const more = h("button", { type: "button", onclick: showMore }, "");
  const table = h("table", {}, h("caption", {}, captionText), h("thead", {}, h("tr", {}, heads)));
  const frame = h(
    "div",
    {
      class: sticky ? "table-frame sticky" : "table-frame",
      tabindex: 0,
      role: "region",
      "aria-label": label,
    },
    table,
  );
  const element = h("div", {}, frame, h("p", { class: "more" }, more));

  function head(column) {
    const sign = h("span", { class: "sign-sort", "aria-hidden": "true" });
    const title =
      column.value && column.title
        ? h(
            "button",
            { type: "button", class: "plain", onclick: () => sortBy(column.key) },
            column.mark?.(),
            column.title,
            " ",
            sign,
          )
        : column.title;
    const classes = [
      column.number && "number",
      column.headClass ??
        (column.number || typeof column.class === "function" ? null : column.class),
    ]
      .filter(Boolean)
      .join(" ");
    return h(
      "th",
      { scope: "col", class: classes || null, title: column.hint },
      title,
      column.head?.(),
    );
  }

  function sortBy(key) {
    const column = columns.find((item) => item.key === key);
    if (sortKey === key) descending = !descending;
    else [sortKey, descending] = [key, Boolean(column.number)];
    onSort?.(`${descending ? "-" : ""}${sortKey}`);
    announce(`Sorted by ${column.title}, ${descending ? "descending" : "ascending"}`);
    draw();
  }

  function arrange() {
    const column = columns.find((item) => item.key === sortKey);
    const arranged = column ? ordered(rows, column.value, descending) : rows;
    return groups ? ordered(arranged, groups.of, false) : arranged;
  }

  function draw() {
    sorted = arrange();
    drawn.forEach((item, index) => {
      const direction = item.key === sortKey ? (descending ? "descending" : "ascending") : null;
      if (direction) heads[index].setAttribute("aria-sort", direction);
      else heads[index].removeAttribute("aria-sort");
      const sign = heads[index].querySelector(".sign-sort");
      if (sign) sign.textContent = direction ? (descending ? "↓" : "↑") : "";
    });
    table.replaceChildren(table.caption, table.tHead, ...drawBodies(sorted.slice(0, shown)));
    table.setAttribute("aria-rowcount", sorted.length + 1);
    const left = sorted.length - shown;
    more.hidden = left <= 0;
    more.textContent = `Show ${count(Math.min(STEP, left))} more of ${count(sorted.length)}`;
  }

  function drawBodies(visible) {
    if (!groups) return [h("tbody", {}, visible.map(drawRow))];
    return [...new Set(visible.map(groups.of))].map((place) =>
      h(
        "tbody",
        {},
        groups.titles[place]
          ? h(
              "tr",
              { class: "group" },
              h(
                "th",
                { scope: "rowgroup", colspan: drawn.length },
                h("span", {}, groups.titles[place]),
              ),
            )
          : null,
        visible.filter((row) => groups.of(row) === place).map(drawRow),
      ),
    );
  }

  function drawRow(row) {
    return h(
      "tr",
      { class: rowClass?.(row) },
      drawn.map((column, index) => {
        const content = column.cell ? column.cell(row) : String(column.value(row) ?? NONE);
        if (index === 0) return h("th", { scope: "row", class: column.class }, content);
        const classes = typeof column.class === "function" ? column.class(row) : column.class;
        return h("td", { class: column.number ? `number ${classes ?? ""}` : classes }, content);
      }),
    );
  }

  function showMore() {
    const before = table.querySelectorAll("tbody tr:not(.group)").length;
    shown += STEP;
    draw();
    table.querySelectorAll("tbody tr:not(.group)")[before]?.querySelector("a, button")?.focus();
  }

  draw();
  return {
    element,
    replace(next, words) {
      rows = next;
      shown = step;
      if (words) captionText.replaceChildren(words);
      draw();
    },
    sorted: () => sorted,
    csv: () =>
      csv(
        columns.filter((column) => column.value),
        sorted,
      ),
  };
}

function parseSort(sort) {
  return sort ? [sort.replace(/^-/, ""), sort.startsWith("-")] : [null, false];
}

/** `rows` sorted by `value`, missing values last in both directions. */
export function ordered(rows, value, descending) {
  const sign = descending ? -1 : 1;
  const keyed = rows.map((row) => [value(row), row]);
  keyed.sort(([a], [b]) => {
    if (!known(a) || !known(b)) return Number(known(b)) - Number(known(a));
    return (
      sign *
      (typeof a === "number" && typeof b === "number" ? a - b : compareText(String(a), String(b)))
    );
  });
  return keyed.map(([, row]) => row);
}

/** CSV in which a spreadsheet does not mistake text of a model for a formula. */
function csv(columns, rows) {
  const field = (value) => {
    let text = known(value) ? String(value) : "";
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [
    columns.map((column) => field(column.title)),
    ...rows.map((row) => columns.map((column) => field(column.value(row)))),
  ];
  return `${lines.map((line) => line.join(",")).join("\r\n")}\r\n`;
}

export function csvButton(name, table) {
  return h(
    "button",
    {
      type: "button",
      class: "plain link",
      onclick: () => download(`${name}.csv`, table.csv(), "text/csv"),
    },
    "CSV",
    h("span", { class: "visually-hidden" }, ` of ${name}`),
  );
}

/** Button for a Parquet table inside the page. */
export function parquetButton(benchmark, name) {
  return h(
    "button",
    {
      type: "button",
      class: "plain link",
      onclick: () => {
        const bytes = Uint8Array.from(atob(benchmark.parquet[name]), (character) =>
          character.charCodeAt(0),
        );
        download(`${benchmark.name}-${name}.parquet`, bytes, "application/vnd.apache.parquet");
      },
    },
    "Parquet",
    h("span", { class: "visually-hidden" }, ` of ${name}`),
  );
}

/** Heading with the downloads of its table on the same line. */
export function heading(title, ...tools) {
  return h("div", { class: "toolbar" }, h("h2", {}, title), h("div", { class: "tools" }, tools));
}
