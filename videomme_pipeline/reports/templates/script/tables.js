// The table of every view: sortable by any column, shown in steps, folded to the width of the
// window. A column: {key, title, value(row), cell(row)?, number?, class?, head?, mark?, fold?}.
// `value` sorts and is written to the CSV, `cell` is shown, and `csvOnly` columns are not shown.
// Columns with the highest `fold` are the first ones to be hidden where the table is too wide.

import { announce, h } from "./dom.js";
import { compareText, count, known, NONE, plural } from "./format.js";

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
  let folded = [];
  let isUnfolded = false;
  let drawnRows = new WeakMap();
  const drawn = columns.filter((column) => !column.csvOnly);
  const heads = drawn.map((column) => head(column));
  const captionText = h("span", {}, caption);
  const unfold = h("button", { type: "button", class: "plain link", onclick: toggleFolded });
  const more = h("button", { type: "button", onclick: showMore }, "");
  const captionLine = h("span", { class: "caption" }, captionText, " ", unfold);
  const table = h("table", {}, h("caption", {}, captionLine), h("thead", {}, h("tr", {}, heads)));
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
        : column.title || h("span", { class: "visually-hidden" }, "Chart");
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
      heads[index].hidden = folded.includes(item);
    });
    while (table.tBodies.length) table.tBodies[0].remove();
    table.append(...drawBodies(sorted.slice(0, shown)));
    table.setAttribute("aria-rowcount", sorted.length + 1);
    const left = sorted.length - shown;
    more.hidden = left <= 0;
    more.textContent = `Show ${count(Math.min(STEP, left))} more of ${count(sorted.length)}`;
  }

  function drawBodies(visible) {
    if (!groups) return [h("tbody", {}, visible.map(rowElements))];
    return [...new Set(visible.map(groups.of))].map((group) =>
      h(
        "tbody",
        {},
        groups.titles[group]
          ? h(
              "tr",
              { class: "group" },
              h(
                "th",
                { scope: "rowgroup", colspan: drawn.length - folded.length },
                h("span", {}, groups.titles[group]),
              ),
            )
          : null,
        visible.filter((row) => groups.of(row) === group).map(rowElements),
      ),
    );
  }

  /** The elements of a row, which are kept, because drawing rows takes most of the time in a search. */
  function rowElements(row) {
    if (!drawnRows.has(row)) drawnRows.set(row, [drawRow(row), isUnfolded && drawFolded(row)]);
    return drawnRows.get(row);
  }

  function drawRow(row) {
    return h(
      "tr",
      { class: rowClass?.(row) },
      drawn.map((column, index) => {
        const hidden = folded.includes(column);
        const content = contentOf(column, row);
        if (index === 0) return h("th", { scope: "row", class: column.class, hidden }, content);
        const classes = typeof column.class === "function" ? column.class(row) : column.class;
        return h(
          "td",
          { class: column.number ? `number ${classes ?? ""}` : classes, hidden },
          content,
        );
      }),
    );
  }

  /** A line below a row with the columns that do not fit. */
  function drawFolded(row) {
    return h(
      "tr",
      { class: ["folded", rowClass?.(row)].filter(Boolean).join(" ") },
      h(
        "td",
        { colspan: drawn.length - folded.length },
        folded.map((column) =>
          h("span", {}, h("b", {}, column.title), " ", contentOf(column, row)),
        ),
      ),
    );
  }

  /** Fold the least important columns, so that the table is not wider than its frame. */
  function fit() {
    redraw([]);
    let excess = table.scrollWidth - frame.clientWidth;
    const chosen = [];
    for (const column of ordered(
      drawn.filter((item) => item.fold),
      (item) => item.fold,
      true,
    )) {
      if (excess <= 0) break;
      chosen.push(column);
      excess -= heads[drawn.indexOf(column)].offsetWidth;
    }
    if (chosen.length) redraw(drawn.filter((column) => chosen.includes(column)));
  }

  function redraw(nextFolded) {
    const focused = rowLinks().indexOf(document.activeElement);
    folded = nextFolded;
    drawnRows = new WeakMap();
    unfold.hidden = !folded.length;
    unfold.setAttribute("aria-expanded", isUnfolded);
    unfold.textContent = `${isUnfolded ? "Hide" : "Show"} ${plural(folded.length, "more column")}`;
    unfold.title = titles(folded);
    draw();
    rowLinks()[focused]?.focus({ preventScroll: true });
  }

  function toggleFolded() {
    isUnfolded = !isUnfolded;
    redraw(folded);
  }

  function rowLinks() {
    return [...table.querySelectorAll("tbody tr:not(.group, .folded)")].map((row) =>
      row.querySelector("a, button"),
    );
  }

  function showMore() {
    const before = rowLinks().length;
    shown += STEP;
    draw();
    rowLinks()[before]?.focus();
  }

  /** Move the focus `down` or up by a row, from outside to the first row. False at the top. */
  function walk(down) {
    const links = rowLinks();
    const position = links.findIndex((link) =>
      link?.closest("tr").contains(document.activeElement),
    );
    if (!down && position <= 0) return false;
    if (down && position === links.length - 1 && !more.hidden) showMore();
    else links[position + (down ? 1 : -1)]?.focus();
    return true;
  }

  /** Show the row that `matches` in the middle of the window, and focus it. */
  function reveal(matches) {
    const position = sorted.findIndex(matches);
    if (position < 0) return false;
    if (position >= shown) {
      shown = STEP * Math.ceil((position + 1) / STEP);
      draw();
    }
    const link = rowLinks()[position];
    link.scrollIntoView({ block: "center" });
    link.focus({ preventScroll: true });
    return true;
  }

  if (drawn.some((column) => column.fold)) observeWidth(frame, fit);
  redraw([]);
  return {
    element,
    replace(next, words) {
      rows = next;
      shown = step;
      if (words) captionText.replaceChildren(words);
      draw();
    },
    sorted: () => sorted,
    walk,
    reveal,
    columns,
    shownColumns: drawn,
  };
}

/** Call `changed` when `element` is first laid out, and whenever its width has changed. */
function observeWidth(element, changed) {
  let width = null;
  new ResizeObserver(() => {
    if (element.clientWidth === width) return;
    width = element.clientWidth;
    changed();
  }).observe(element);
}

const titles = (columns) => columns.map((column) => column.title).join(", ");

/** A column of numbers: `value(row)` sorts, and `format(value)` is shown. */
export const numberColumn = (key, title, value, format, options = {}) => ({
  key,
  title,
  number: true,
  value,
  cell: (row) => format(value(row)),
  ...options,
});

/** Column of the CSV that marks scores with failed questions, which are lower bounds. */
export const lowerBoundColumn = (failedOf, name = "") => ({
  key: `${name}-lower-bound`,
  title: name ? `${name}, lower bound` : "Lower bound",
  csvOnly: true,
  value: (row) => (failedOf(row) ? "yes" : ""),
});

/** Content of a table cell: a text, an element, or a list of texts and elements. */
export const contentOf = (column, row) =>
  column.cell ? column.cell(row) : String(column.value(row) ?? NONE);

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

/** Heading with the downloads of its table on the same line. */
export function heading(title, ...tools) {
  return h("div", { class: "toolbar" }, h("h2", {}, title), h("div", { class: "tools" }, tools));
}
