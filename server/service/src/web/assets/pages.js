// A list in pages, with a search by name: the list of machines, and that of jobs.

import { el, replace } from "./dom.js";

const EVERY_MS = 3000;

/** A list in pages, with a search by name. */
export function pages(title, fields, load) {
  const rows = el("div");
  const more = el("button", { type: "button", hidden: true, onclick: () => next(false) }, "more");
  let items = [];
  let page = null;
  let last = -Infinity;
  const name = el("input", { type: "search", name: "name", oninput: () => next(true) });
  const self = { title, begin, update, next };
  return self;

  function begin(main) {
    main.append(el("section", { class: "device", "aria-label": title },
      el("form", { onsubmit: (event) => event.preventDefault() }, el("label", {}, "name contains", name), ...fields(self)), rows, more));
  }

  // Only the first page is updated automatically; after that, the loaded pages stay as they are.
  async function update(cell) {
    self.cell = cell;
    if (items.length <= 100 && performance.now() - last >= EVERY_MS) await next(true);
  }

  async function next(anew) {
    last = performance.now();
    const asked = { name: name.value || null, page: anew ? null : page };
    const list = await load(asked);
    if (asked.name !== (name.value || null)) return;
    items = anew ? list.items : [...items, ...list.items];
    page = list.next_page;
    more.hidden = page === null;
    replace(rows, self.table(items));
  }
}
