// The page of all machines, and the page of one machine: its resources, their use, and its tasks.

import { ask } from "./api.js";
import { bar, device, el, link, table } from "./dom.js";
import { events } from "./events.js";
import { amount, count, percent } from "./format.js";
import { pages } from "./pages.js";
import { patch } from "./patch.js";
import { taskTable } from "./tasks.js";

const EVERY_MS = 3000;

const units = (cell) => Object.fromEntries(cell.resources.map((one) => [one.name, one.unit]));

/** The list of machines. */
export function machines(asked) {
  const state = el("select", { name: "state" },
    el("option", { value: "" }, "all"), ...["up", "draining", "unreachable"].map((one) => el("option", { value: one }, one)));
  const label = el("input", { type: "search", name: "label", placeholder: "KEY=VALUE" });
  const filters = [{ label: "state", input: state }, { label: "label", input: label }];
  const self = pages({ title: "Machines", route: "machines", filters, asked });
  self.table = (items, order) => {
    const kinds = self.cell.resources.filter((one) => one.claimable > 0).map((one) => one.name);
    return table(null, [
      { name: "machine", head: true, of: (row) => link("machine", row.name), by: (row) => row.name },
      { name: "state", of: (row) => machineState(row.status), by: (row) => row.status },
      { name: "tasks", number: true, of: (row) => count(row.tasks), by: (row) => row.tasks },
      ...kinds.map((kind) => {
        const part = (row) => percent(row.resources[kind].claimed, row.resources[kind].claimable);
        return { name: `${kind} taken`, number: true, of: (row) => (part(row) === null ? "–" : `${part(row)} %`), by: (row) => part(row) ?? -1 };
      }),
      { name: "labels", of: (row) => Object.entries(row.labels).map(([key, value]) => `${key}=${value}`).join(" ") },
    ], items, "none", order);
  };
  return self;
}

/** The state of a machine, in a colour unless it is up. */
function machineState(status) {
  return el("span", { class: { unreachable: "bad", draining: "warn" }[status] }, status);
}

/** The page of one machine. */
export function machine(name) {
  const place = el("div", {}, el("p", { class: "quiet" }, "…"));
  let last = -Infinity;
  return {
    title: `Machine ${name}`,
    begin: (main) => main.append(place),
    async update(cell) {
      if (performance.now() - last < EVERY_MS) return;
      last = performance.now();
      let told;
      let happened;
      try {
        [told, happened] = await Promise.all([ask("machine", { name }), events({ machine: name })]);
      } catch (error) {
        patch(place, el("p", { class: "bad" }, error.message));
        return;
      }
      const one = told.machine;
      const unit = units(cell);
      const rows = cell.resources.map(({ name: kind }) => ({ kind, ...one.resources[kind] })).filter((row) => row.capacity > 0 || row.claimable > 0);
      patch(place,
        el("div", { class: "two" },
          device("Description", el("dl", { class: "facts" },
            el("dt", {}, "state"), el("dd", {}, machineState(one.status)),
            el("dt", {}, "id"), el("dd", {}, one.id),
            el("dt", {}, "devices"), el("dd", {}, one.devices),
            el("dt", {}, "labels"), el("dd", {}, Object.entries(one.labels).map(([key, value]) => `${key}=${value}`).join(", ") || "none"),
            el("dt", {}, "taints"), el("dd", {}, one.taints.join(", ") || "none"))),
          device("Resources in use", table(null, [
            { name: "resource", head: true, of: (row) => row.kind },
            { name: "", of: (row) => bar(percent(row.claimed, row.claimable)) },
            { name: "claimed", number: true, of: (row) => amount(unit[row.kind], row.claimed) },
            { name: "claimable", number: true, of: (row) => amount(unit[row.kind], row.claimable) },
            { name: "used", number: true, of: (row) => (row.used === null ? "–" : amount(unit[row.kind], row.used)) },
          ], rows))),
        device(`Tasks (${count(one.tasks)})`, taskTable(told.tasks, { job: true }), told.next_page ? el("p", { class: "quiet" }, `only the first ${told.tasks.length}; \`omega task list\` has all`) : ""),
        happened);
    },
  };
}
