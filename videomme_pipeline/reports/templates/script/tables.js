// One kind of table for every view: sortable by any column, shown in steps, and offered as CSV.
// A column: {key, title, value(row), cell(row)?, number?, class?, head?}. `value` sorts and goes
// into the CSV; `cell` draws.

const STEP = 100;

function dataTable({ caption, columns, rows, sort, rowClass, sticky = false, onSort, steps = true }) {
  let [sortKey, descending] = parseSort(sort);
  let shown = steps ? STEP : rows.length;
  let sorted = rows;
  const body = h("tbody");
  const heads = columns.map((column) => head(column));
  const more = h("button", { type: "button", onclick: showMore }, "");
  const table = h("table", { "aria-rowcount": rows.length + 1 },
    h("caption", {}, caption), h("thead", {}, h("tr", {}, heads)), body);
  const frame = h("div", { class: sticky ? "table-frame sticky" : "table-frame", tabindex: 0, role: "region", "aria-label": caption }, table);
  const element = h("div", {}, frame, h("p", { class: "more" }, more));

  function head(column) {
    const label = column.value
      ? h("button", { type: "button", class: "plain", onclick: () => sortBy(column.key) },
        column.title, " ", h("span", { class: "sign-sort", "aria-hidden": "true" }))
      : column.title;
    const classes = [column.number && "number", column.headClass ?? (column.number || typeof column.class === "function" ? null : column.class)].filter(Boolean).join(" ");
    return h("th", { scope: "col", class: classes || null, title: column.hint }, label, column.head?.());
  }

  function sortBy(key) {
    const column = columns.find((item) => item.key === key);
    if (sortKey === key) descending = !descending;
    else [sortKey, descending] = [key, Boolean(column.number)];
    onSort?.(`${descending ? "-" : ""}${sortKey}`);
    announce(`Sorted by ${column.title}, ${descending ? "descending" : "ascending"}`);
    draw();
  }

  function draw() {
    const column = columns.find((item) => item.key === sortKey);
    sorted = column ? ordered(rows, column.value, descending) : rows;
    columns.forEach((item, index) => {
      const direction = item.key === sortKey ? (descending ? "descending" : "ascending") : null;
      if (direction) heads[index].setAttribute("aria-sort", direction);
      else heads[index].removeAttribute("aria-sort");
      const sign = heads[index].querySelector(".sign-sort");
      if (sign) sign.textContent = direction ? (descending ? "↓" : "↑") : "";
    });
    body.replaceChildren(...sorted.slice(0, shown).map(drawRow));
    table.setAttribute("aria-rowcount", rows.length + 1);
    const left = sorted.length - shown;
    more.hidden = left <= 0;
    more.textContent = `Show ${Math.min(STEP, left)} more of ${count(sorted.length)}`;
  }

  function drawRow(row) {
    return h("tr", { class: rowClass?.(row) }, columns.map((column, index) => {
      const content = column.cell ? column.cell(row) : String(column.value(row) ?? NONE);
      if (index === 0) return h("th", { scope: "row", class: column.class }, content);
      const classes = typeof column.class === "function" ? column.class(row) : column.class;
      return h("td", { class: column.number ? `number ${classes ?? ""}` : classes }, content);
    }));
  }

  function showMore() {
    const first = shown;
    shown += STEP;
    draw();
    body.rows[first]?.querySelector("a, button")?.focus();
  }

  draw();
  return {
    element,
    body,
    replace(next) { rows = next; shown = steps ? STEP : next.length; draw(); },
    sorted: () => sorted,
    csv: () => csv(columns.filter((column) => column.value), sorted),
  };
}

function parseSort(sort) {
  return sort ? [sort.replace(/^-/, ""), sort.startsWith("-")] : [null, false];
}

/** `rows` by `value`, missing values last whichever the direction. */
function ordered(rows, value, descending) {
  const sign = descending ? -1 : 1;
  const keyed = rows.map((row) => [value(row), row]);
  keyed.sort(([a], [b]) => {
    if (!known(a) || !known(b)) return Number(known(b)) - Number(known(a));
    return sign * (typeof a === "number" ? a - b : compareText(a, b));
  });
  return keyed.map(([, row]) => row);
}

/** CSV that a spreadsheet opens without taking a model's text for a formula. */
function csv(columns, rows) {
  const field = (value) => {
    let text = known(value) ? String(value) : "";
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [columns.map((column) => field(column.title)), ...rows.map((row) => columns.map((column) => field(column.value(row))))];
  return `${lines.map((line) => line.join(",")).join("\r\n")}\r\n`;
}

function csvButton(name, table) {
  return h("button", { type: "button", class: "plain link", onclick: () => download(`${name}.csv`, table.csv(), "text/csv") },
    "CSV", h("span", { class: "visually-hidden" }, ` of ${name}`));
}

/** A heading with its table's tools on the same line. */
function heading(title, ...tools) {
  return h("div", { class: "toolbar" }, h("h2", {}, title), h("div", { class: "tools" }, tools));
}
