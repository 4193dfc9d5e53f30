// The page of all tenants: their place in the tree, limits, and usage.

import { el, jobsLink, table } from "./dom.js";
import { amount, count } from "./format.js";
import { pages } from "./pages.js";

/** The list of tenants. */
export function tenants(asked) {
  const self = pages({ title: "Tenants", route: "tenants", asked });
  self.table = (items, order) => {
    const kinds = self.cell.resources.filter(({ name, claimable }) => claimable > 0 || items.some((row) => row.used[name] > 0));
    const unit = Object.fromEntries(self.cell.resources.map((kind) => [kind.name, kind.unit]));
    const amounts = (of) => Object.entries(of ?? {}).filter(([, value]) => value !== null)
      .map(([name, value]) => `${name} ${amount(unit[name], value)}`).join(", ");
    const guaranteed = (row) => amounts(Object.fromEntries(Object.entries(row.guaranteed).filter(([, value]) => value > 0)));
    const number = (name, of) => ({ name, number: true, of: (row) => count(of(row)), by: of });
    return el("div", {}, table(null, [
      { name: "tenant", head: true, of: (row) => jobsLink({ tenant: row.name }, row.name), by: (row) => row.name },
      { name: "parent", of: (row) => row.parent ?? "–", by: (row) => row.parent ?? "" },
      number("weight", (row) => row.weight),
      ...kinds.map(({ name }) => ({ name: `${name} used`, number: true, of: (row) => used(row, name, unit[name]), by: (row) => row.used[name] })),
      number("jobs", (row) => row.jobs),
      number("pending tasks", (row) => row.tasks.pending),
      number("tasks on machines", (row) => row.tasks.placed + row.tasks.running),
      { name: "guarantee", wide: true, of: (row) => guaranteed(row) || "–" },
      { name: "request limit", wide: true, of: (row) => amounts(row.request_limit) || "–" },
    ], items, "no tenants", order),
    el("p", { class: "note" }, "Amounts, jobs and tasks include those of all tenants below."));
  };
  return self;
}

/** The used amount of a resource, and its limit; in a colour where the limit is reached. */
function used(row, name, unit) {
  const limit = row.limit?.[name] ?? null;
  const value = row.used[name];
  if (limit === null) return amount(unit, value);
  return el("span", { class: value >= limit ? "warn" : null }, `${amount(unit, value)} of ${amount(unit, limit)}`);
}
