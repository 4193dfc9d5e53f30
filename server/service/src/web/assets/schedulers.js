// The page of all schedulers: their leases, their counters, and the results of their latest transactions.

import { device, el, table } from "./dom.js";
import { count, reasons } from "./format.js";
import { pages } from "./pages.js";
import { patch } from "./patch.js";

const sum = (of) => Object.values(of).reduce((a, b) => a + b, 0);

/** The list of schedulers. */
export function schedulers(asked) {
  const latest = el("div");
  const rest = el("p", { class: "quiet" });
  const self = pages({ title: "Schedulers", route: "schedulers", asked });
  const number = (name, of) => ({ name, number: true, of: (row) => count(of(row)), by: of });
  const { begin } = self;
  self.begin = (main) => {
    begin(main);
    main.append(rest, device("Latest transactions", latest));
  };
  self.table = (items, order) => el("div", {}, table(null, [
    { name: "scheduler", head: true, of: (row) => row.name, by: (row) => row.name },
    { name: "lease", class: "nowrap", of: lease, by: (row) => row.lease ?? "" },
    number("commits", (row) => row.committed),
    number("conflicts", (row) => row.conflicted),
    number("placements", (row) => row.placements),
    number("rejected", (row) => sum(row.conflicts)),
    { name: "reasons", of: (row) => reasons(row.conflicts) },
    { name: "latest version", number: true, of: (row) => (row.last_version === null ? "–" : count(row.last_version)), by: (row) => row.last_version ?? 0 },
    { name: "process", wide: true, of: (row) => row.process ?? "–", by: (row) => row.process ?? "" },
  ], items, "no scheduler has registered", order),
  el("p", { class: "note" }, "The scheduler with the latest transaction comes first. Commits and conflicts are transactions, placements and rejected are their items; all of them came through this replica since its start."));
  self.loaded = (told) => {
    rest.textContent = told.more ? `Only ${count(told.items.length)} schedulers are shown: filter by name to see others.` : "";
    patch(latest, results(told.transactions));
  };
  return self;
}

/** Results of transactions. */
function results(transactions) {
  return table(null, [
    { name: "transaction", head: true, of: (row) => `${row.scheduler}:${row.number}` },
    { name: "version", number: true, of: (row) => count(row.version) },
    { name: "result", of: (row) => (sum(row.conflicts) ? el("span", { class: "warn" }, "conflict") : "committed") },
    { name: "rejected", number: true, of: (row) => count(sum(row.conflicts)) },
    { name: "reasons", of: (row) => reasons(row.conflicts) },
  ], transactions, "the cell keeps no results");
}

function lease(row) {
  if (row.lease === null) return "see the leader's page";
  return el("span", { class: { expired: "bad", none: "quiet" }[row.lease] }, row.lease);
}
