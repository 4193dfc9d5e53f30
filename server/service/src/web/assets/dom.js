// Elements made of values. Text from the cell is always inserted as text, never as markup: nothing in this page
// sets innerHTML.

/** An element with attributes, listeners (`onclick`), a `key` for patch.js, and children: elements, or anything else as
 * text. */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [attribute, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (attribute === "key") made.key = value;
    else if (attribute.startsWith("on")) made.addEventListener(attribute.slice(2), value);
    else made.setAttribute(attribute, value === true ? "" : String(value));
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined)
    .map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

/** A link to a machine or a job, whose name may have any characters. */
export function link(kind, name) {
  return el("a", { href: `#/${kind}/${encodeURIComponent(name)}` }, name);
}

/** A link to the list of jobs with this filter, such as `{ tenant }`. */
export function jobsLink(filter, text) {
  return el("a", { href: `#/jobs?${new URLSearchParams(filter)}` }, text);
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

/** A table: columns are { name, number?, wide?, head?, key?(row), of(row), by?(row) }; `head` marks the one with the name
 * of the row, which identifies the row in an update unless the column has a `key`; `wide` those that are hidden on a
 * narrow screen, and `by` is the value by which an ordering sorts. */
export function table(caption, columns, rows, empty = "none", order = null) {
  if (rows.length === 0) return el("p", { class: "quiet" }, empty);
  const kind = ({ number, wide, class: own }) => ({ class: [number && "number", wide && "wide", own].filter(Boolean).join(" ") || null });
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
      el("th", { key: column.name, scope: "col", ...kind(column), ...sorted(column) }, heading(column))))),
    el("tbody", {}, lines(columns, order ? order.sort(columns, rows) : rows, kind))));
}

function lines(columns, rows, kind) {
  const head = columns.findIndex((column) => column.head);
  const seen = new Map();
  return rows.map((row) => {
    const cells = columns.map((column) => (column.head ? el("th", { scope: "row" }, column.of(row)) : el("td", kind(column), column.of(row))));
    if (head < 0) return el("tr", {}, cells);
    const name = columns[head].key?.(row) ?? cells[head].textContent;
    const times = seen.get(name) ?? 0;
    seen.set(name, times + 1);
    return el("tr", { key: `${times} ${name}` }, cells);
  });
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
