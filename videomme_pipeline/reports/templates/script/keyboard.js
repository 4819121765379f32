// The keys of the page. `docs/report.md` lists the keys.

import { readAddress } from "./address.js";
import { backToList } from "./question.js";
import { listing } from "./questions.js";

export function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (walkRows(event)) {
    event.preventDefault();
    return;
  }
  if (event.target.closest("input, select, textarea")) return;
  const search = document.querySelector("main input[type=search]");
  if (event.key === "/" && search) {
    event.preventDefault();
    search.focus();
  }
  if (readAddress().view !== "question") return;
  const target = { ArrowLeft: "a[rel=prev]", ArrowRight: "a[rel=next]" }[event.key];
  if (target) document.querySelector(target)?.click();
  if (event.key === "Escape") backToList();
}

/** Move through the listed questions with ↑ and ↓: from the search, the page or another row. */
function walkRows({ key, target }) {
  const list = listing?.table.element;
  if (!["ArrowDown", "ArrowUp"].includes(key) || !list?.isConnected) return false;
  const isInRow = list.contains(target) && target.closest("tbody");
  const isBefore = target === document.body || ["main", "search"].includes(target.id);
  if (!isInRow && !(key === "ArrowDown" && isBefore)) return false;
  if (!listing.table.walk(key === "ArrowDown")) document.getElementById("search")?.focus();
  return true;
}
