// Elements made of values. Text from the cell is always inserted as text, never as markup: nothing in this page
// sets innerHTML.

/** An element with attributes, listeners (`onclick`) and children: elements, or anything else as text. */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined)
    .map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

/** A link to a machine or a job, whose name may have any characters. */
export function link(kind, name) {
  return el("a", { href: `#/${kind}/${encodeURIComponent(name)}` }, name);
}

/** An order of rows by a column, which the reader chooses: `changed` is called after each choice. */
export function ordering(changed) {
  const order = { name: null, down: false, choose, sort };
  return order;

  function choose(name) {
    order.down = order.name === name && !order.down;
    order.name = name;
    changed();
  }

  function sort(columns, rows) {
    const column = columns.find(({ name, by }) => by && name === order.name);
    if (!column) return rows;
    const compare = (a, b) => (typeof a === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true }));
    const sorted = [...rows].sort((a, b) => compare(column.by(a), column.by(b)));
    return order.down ? sorted.reverse() : sorted;
  }
}

/** A table: columns are { name, number?, wide?, head?, of(row), by?(row) }; `head` marks the one with the name of the
 * row, `wide` those that are hidden on a narrow screen, and `by` is the value by which an ordering sorts. */
export function table(caption, columns, rows, empty = "none", order = null) {
  if (rows.length === 0) return el("p", { class: "quiet" }, empty);
  const kind = ({ number, wide, class: own }) => ({ class: [number && "number", wide && "wide", own].filter(Boolean).join(" ") || null });
  const cell = (column, row) => column.head
    ? el("th", { scope: "row" }, column.of(row))
    : el("td", kind(column), column.of(row));
  const heading = (column) => {
    if (!order || !column.by) return column.name;
    const chosen = order.name === column.name;
    const arrow = el("span", { class: "arrow", "aria-hidden": "true" }, chosen ? (order.down ? "▼" : "▲") : "");
    return el("button", { type: "button", class: "sort", onclick: () => order.choose(column.name) }, column.name, arrow);
  };
  const sorted = (column) => (order?.name === column.name ? { "aria-sort": order.down ? "descending" : "ascending" } : {});
  return el("div", { class: "scroll" }, el("table", {},
    caption ? el("caption", {}, caption) : null,
    el("thead", {}, el("tr", {}, columns.map((column) =>
      el("th", { scope: "col", ...kind(column), ...sorted(column) }, heading(column))))),
    el("tbody", {}, (order ? order.sort(columns, rows) : rows).map((row) => el("tr", {}, columns.map((column) => cell(column, row)))))));
}

/** A share as a bar, with its number beside it for screen readers. */
export function bar(percent) {
  if (percent === null) return el("span", { class: "quiet" }, "–");
  const fill = el("i", { class: percent > 100 ? "full" : null });
  fill.style.width = `${Math.min(percent, 100)}%`;
  return el("span", { class: "bar", role: "img", "aria-label": `${percent} percent` }, fill);
}

/** A section with a heading. */
export function device(title, ...children) {
  return el("section", { class: "device", "aria-label": title }, el("h2", {}, title), ...children);
}

/** Replaces the content of an element. The focus stays at the same position within it. */
export function replace(place, ...children) {
  const focused = document.activeElement;
  const inside = focused && focused !== place && place.contains(focused);
  const path = inside ? pathTo(place, focused) : null;
  place.replaceChildren(...children);
  if (path) follow(place, path)?.focus({ preventScroll: true });
}

function pathTo(place, inner) {
  const path = [];
  for (let at = inner; at !== place; at = at.parentNode) {
    path.unshift([...at.parentNode.children].indexOf(at));
  }
  return path;
}

function follow(place, path) {
  return path.reduce((at, index) => at?.children[index], place);
}
