// A table in another form: as a CSV file, or copied as Markdown or LaTeX.

import { announce, append, download, h } from "./dom.js";
import { known } from "./format.js";
import { contentOf } from "./tables.js";

const COPIED_MILLISECONDS = 2000;

/**
 * Buttons for a table in three forms. `name` is the name of the file, `columns` are those of a
 * paper, by default all that are shown and have a title.
 */
export function exportButtons(name, table, columns = table.shownColumns) {
  return [
    linkButton("CSV", name, () => download(`${name}.csv`, csv(table), "text/csv")),
    copyButton("Markdown", name, () => markdown(table, columns)),
    copyButton("LaTeX", name, () => latex(table, columns)),
  ];
}

/** Button that copies `text()`. The button says so for a moment. */
export function copyButton(form, name, text) {
  return linkButton(form, name, async (event) => {
    const [label] = event.currentTarget.childNodes;
    await navigator.clipboard.writeText(text());
    label.textContent = "Copied";
    announce(`${form} of ${name} copied`);
    setTimeout(() => {
      label.textContent = form;
    }, COPIED_MILLISECONDS);
  });
}

function linkButton(text, name, onclick) {
  return h(
    "button",
    { type: "button", class: "plain link", onclick },
    text,
    h("span", { class: "visually-hidden" }, ` of ${name}`),
  );
}

/** CSV in which a spreadsheet does not mistake text of a model for a formula. */
function csv(table) {
  const columns = table.columns.filter((column) => column.value);
  const field = (value) => {
    let text = known(value) ? String(value) : "";
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [
    columns.map((column) => field(column.title)),
    ...table.sorted().map((row) => columns.map((column) => field(column.value(row)))),
  ];
  return `${lines.map((line) => line.join(",")).join("\r\n")}\r\n`;
}

function markdown(table, shown) {
  const { columns, lines } = textCells(table, shown);
  const row = (cells) => `| ${cells.map(markdownText).join(" | ")} |\n`;
  const rule = columns.map((column) => (column.number ? "---:" : "---"));
  return (
    row(columns.map((column) => column.title)) +
    `| ${rule.join(" | ")} |\n` +
    lines.map(row).join("")
  );
}

const markdownText = (text) => text.replace(/[\\|<>`*_[\]]/g, "\\$&");

function latex(table, shown) {
  const { columns, lines } = textCells(table, shown);
  const row = (cells) => `${cells.map(latexText).join(" & ")} \\\\\n`;
  return [
    `\\begin{tabular}{${columns.map((column) => (column.number ? "r" : "l")).join("")}}\n`,
    "\\toprule\n",
    row(columns.map((column) => column.title)),
    "\\midrule\n",
    ...lines.map(row),
    "\\bottomrule\n",
    "\\end{tabular}\n",
  ].join("");
}

const LATEX = {
  "\\": "\\textbackslash{}",
  "~": "\\textasciitilde{}",
  "^": "\\textasciicircum{}",
  "−": "$-$",
  "×": "$\\times$",
  "–": "--",
  "≥": "$\\geq$",
  "<": "$<$",
  ">": "$>$",
};

export const latexText = (text) =>
  text.replace(/[\\~^−×–≥<>&%$#_{}]/g, (character) => LATEX[character] ?? `\\${character}`);

/** The cells of a table as a screen reader reads them; charts are left out. */
function textCells(table, shown) {
  const columns = shown.filter((column) => column.title && !column.head);
  return {
    columns,
    lines: table
      .sorted()
      .map((row) => columns.map((column) => textOf(append(h("td"), [contentOf(column, row)])))),
  };
}

function textOf(node) {
  if (node.nodeType === Node.TEXT_NODE) return node.textContent;
  if (node.getAttribute("aria-hidden") === "true") return "";
  return [...node.childNodes].map(textOf).join(" ").replace(/\s+/g, " ").trim();
}
