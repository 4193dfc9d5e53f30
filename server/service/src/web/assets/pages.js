// A list in pages, with a search by name and an order of the loaded rows: the list of machines, and that of jobs.

import { el, ordering, replace } from "./dom.js";
import { count } from "./format.js";

const EVERY_MS = 3000;

/** A list in pages, with a search by name. */
export function pages(title, fields, load) {
  const rows = el("div");
  const note = el("p", { class: "quiet" });
  const order = ordering(draw);
  const more = el("button", { type: "button", hidden: true, onclick: () => next(false) }, "more");
  let items = [];
  let page = null;
  let last = -Infinity;
  let calls = 0;
  const name = el("input", { type: "search", name: "name", oninput: () => next(true) });
  const self = { title, begin, update, next };
  return self;

  function begin(main) {
    main.append(el("section", { class: "device", "aria-label": title },
      el("form", { onsubmit: (event) => event.preventDefault() }, el("label", {}, "name contains", name), ...fields(self)), rows, note, more));
  }

  // Only the first page is updated automatically; after that, the loaded pages stay as they are.
  async function update(cell) {
    self.cell = cell;
    if (items.length <= 100 && performance.now() - last >= EVERY_MS) await next(true);
  }

  async function next(anew) {
    last = performance.now();
    calls += 1;
    const call = calls;
    // The page after the present list does not continue a list with other filters.
    more.disabled = anew;
    const asked = { name: name.value || null, page: anew ? null : page };
    const list = await load(asked);
    if (call !== calls) return;
    items = anew ? list.items : [...items, ...list.items];
    page = list.next_page;
    more.hidden = page === null;
    more.disabled = false;
    draw();
  }

  function draw() {
    replace(rows, self.table(items, order));
    note.textContent = order.name !== null && page !== null ? `Only the ${count(items.length)} rows that are loaded are sorted.` : "";
  }
}
