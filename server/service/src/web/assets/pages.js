// A list in pages, with filters and an order of the loaded rows. The filters are part of the address.

import { ask } from "./api.js";
import { el, ordering } from "./dom.js";
import { count } from "./format.js";
import { patch } from "./patch.js";

const EVERY_MS = 3000;

/** A list in pages: `route` is its address and that of its data, `filters` are { label, input }, whose input has the
 * name of the route's parameter, and `asked` has the filters of the address. The caller adds the function `table` of the
 * items and their order, and may add `loaded`, a function of each reply. */
export function pages({ title, route, filters = [], asked }) {
  const rows = el("div");
  const note = el("p", { class: "quiet" });
  const order = ordering(draw);
  const more = el("button", { type: "button", hidden: true, onclick: () => load(page) }, "more");
  const all = [{ label: "name contains", input: el("input", { type: "search", name: "name" }) }, ...filters];
  let items = [];
  let page = null;
  let last = -Infinity;
  let calls = 0;
  const self = { title, begin, update };
  return self;

  function begin(main) {
    for (const { input } of all) {
      choose(input, asked.get(input.name) ?? "");
      input.addEventListener("input", changed);
    }
    main.append(el("section", { class: "device", "aria-label": title },
      el("form", { onsubmit: (event) => event.preventDefault() }, all.map(({ label, input }) => el("label", {}, label, input))), rows, note, more));
  }

  // Only the first page is updated automatically; after that, the loaded pages stay as they are.
  async function update(cell) {
    self.cell = cell;
    if (items.length <= 100 && performance.now() - last >= EVERY_MS) await load(null);
  }

  function changed() {
    const query = new URLSearchParams(given()).toString();
    history.replaceState(null, "", `#/${route}${query ? `?${query}` : ""}`);
    // The page after the present list does not continue a list with other filters.
    more.disabled = true;
    load(null);
  }

  function given() {
    return Object.fromEntries(all.map(({ input }) => [input.name, input.value]).filter(([, value]) => value !== ""));
  }

  /** Loads the page with this token, or the list anew. */
  async function load(token) {
    last = performance.now();
    calls += 1;
    const call = calls;
    let told;
    try {
      told = await ask(route, { ...given(), page: token });
    } catch (error) {
      if (error.code !== "MALFORMED") throw error;
      told = { items: [], refused: error.message };
    }
    if (call !== calls) return;
    items = token === null ? told.items : [...items, ...told.items];
    page = told.next_page ?? null;
    more.hidden = page === null;
    more.disabled = false;
    draw(told.refused);
    if (!told.refused) self.loaded?.(told);
  }

  function draw(refused) {
    patch(rows, refused ? el("p", { class: "bad" }, refused) : self.table(items, order));
    note.textContent = order.name !== null && page !== null ? `Only the ${count(items.length)} rows that are loaded are sorted.` : "";
  }
}

/** Sets the value of a filter. A value that is no option becomes one, so that the list reports it. */
function choose(input, value) {
  const options = [...(input.options ?? [])];
  if (input.options && !options.some((option) => option.value === value)) input.append(el("option", { value }, value));
  input.value = value;
}
