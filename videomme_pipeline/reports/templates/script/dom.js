// Create elements. Strings become text nodes and are never parsed as markup, so text of a model
// cannot run as script.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set("svg g line circle path polyline text rect image title".split(" "));

/** Create an element: `h("td", {class: "number", onclick: f}, "text", child, [children])`. */
export function h(tag, attributes = {}, ...children) {
  const element = SVG_TAGS.has(tag)
    ? document.createElementNS(SVG, tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "width" && tag === "i") element.style.width = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child);
  }
  return element;
}

/** Announce a change to screen readers. */
export function announce(text) {
  document.getElementById("announcer").textContent = text;
}

/** Offer `content` as a file. */
export function download(name, content, type) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Scroll to `section`, which needs a tabindex, and focus it. */
export function jumpTo(section) {
  section.scrollIntoView({ behavior: "instant", block: "start" });
  section.focus({ preventScroll: true });
}

export function select(label, options, chosen, onchange) {
  const control = h("select", { onchange: (event) => onchange(event.target.value) });
  for (const [value, text] of options) control.append(h("option", { value }, text));
  control.value = chosen;
  return h("label", {}, label, control);
}

export function checkbox(label, checked, onchange) {
  const control = h("input", {
    type: "checkbox",
    onchange: (event) => onchange(event.target.checked),
  });
  control.checked = checked;
  return h("label", { class: "check" }, control, label);
}
