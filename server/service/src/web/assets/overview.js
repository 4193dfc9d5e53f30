// The overview of the cell: sums, heat map, schedulers, pending jobs, replicas.

import { ask } from "./api.js";
import { bar, device, el, jobsLink, link, table } from "./dom.js";
import { explanation, tellNext } from "./explain.js";
import { amount, count, percent, plural, rate, reasons, time } from "./format.js";
import { heat } from "./heat.js";
import { patch } from "./patch.js";
import { conflictPercent, perSecond } from "./rates.js";

const WAITING_SHOWN = 10;
// Number of pending jobs that are explained automatically.
const EXPLAINED = 5;

function tile(name, value, small = null) {
  return el("div", { class: "tile" }, el("dt", {}, name), el("dd", {}, value, small ? el("small", {}, small) : null));
}

function share(value) {
  return value === null ? "–" : `${value < 10 && value > 0 ? value.toFixed(1) : Math.round(value)} %`;
}

function tiles(cell) {
  const placed = cell.tasks.placed + cell.tasks.running;
  return [
    tile("machines", count(cell.machines), [cell.draining ? `${count(cell.draining)} draining` : "", cell.unreachable ? `${count(cell.unreachable)} unreachable` : ""].filter(Boolean).join(", ") || null),
    tile("tasks on machines", count(placed), `${count(cell.tasks.running)} running`),
    tile("pending tasks", count(cell.tasks.pending), `of ${plural(cell.jobs, "job")} in total`),
    tile("placements/s", rate(perSecond("placements"))),
    tile("commits/s", rate(perSecond("committed"))),
    tile("conflicted", share(conflictPercent()), "of transactions lately"),
    tile("changes/s", rate(perSecond("version")), `version ${count(cell.version)}`),
  ];
}

function resources(cell) {
  return table(null, [
    { name: "resource", head: true, of: (row) => row.name },
    { name: "", wide: true, of: (row) => bar(percent(row.claimed, row.claimable)) },
    { name: "taken", number: true, of: (row) => { const part = percent(row.claimed, row.claimable); return part === null ? "–" : `${part} %`; } },
    { name: "claimed", number: true, of: (row) => amount(row.unit, row.claimed) },
    { name: "claimable", number: true, of: (row) => amount(row.unit, row.claimable) },
  ], cell.resources.filter((row) => row.claimable > 0), "no machines yet: add one with `omega \
       machine add`");
}

function schedulers(cell) {
  return table(null, [
    { name: "scheduler", head: true, of: (row) => row.name },
    { name: "pending tasks", number: true, of: (row) => count(row.pending_tasks) },
    { name: "jobs", number: true, wide: true, of: (row) => count(row.pending_jobs) },
    { name: "longest wait", class: "nowrap", of: (row) => (row.oldest_job ? time(row.oldest_wait_ms) : "–") },
    { name: "placements/s", number: true, of: (row) => rate(perSecond("placements", row.name)) },
    { name: "commits/s", number: true, of: (row) => rate(perSecond("committed", row.name)) },
    { name: "conflicted", number: true, of: (row) => share(conflictPercent(row.name)) },
    { name: "conflicts since the start", of: (row) => reasons(row.conflicts) },
  ], cell.schedulers, "no scheduler has committed yet, and no job names one");
}

/** Time without a message after which a replica counts as silent: several heartbeats. */
const SILENT_MS = 2000;

/** Number of missing entries above which a replica counts as lagging. */
const LAGGING = 1000;

function replicas(cell) {
  const lag = (row) => (row.silent_ms > SILENT_MS ? el("span", { class: "bad" }, `no contact for ${time(row.silent_ms)}`) : row.lag_entries === null ? "see the leader's page" : row.lag_entries === 0 ? "none" : el("span", { class: row.lag_entries > LAGGING ? "warn" : null }, `${count(row.lag_entries)} entries`));
  return table(null, [
    { name: "replica", head: true, of: (row) => `r${row.replica}${row.replica === cell.replica ? " (this one)" : ""}` },
    { name: "role", of: (row) => (row.leads ? "leader" : row.role) },
    { name: "lag", class: "nowrap", of: lag },
  ], cell.replicas, "none: the cell is in memory only");
}

/** The overview page. */
export function overview() {
  const places = { tiles: el("dl", { class: "tiles" }), resources: el("div"), schedulers: el("div"), replicas: el("div"), waiting: el("div") };
  const map = heat();
  return {
    title: "Overview",
    begin(main) {
      main.append(places.tiles, el("div", { class: "two" }, device("Resources", places.resources), device("Replicas", places.replicas)),
        device("Machines by use", map.place), device("Schedulers", el("p", { class: "note" }, "Commits and conflicts are those that came through this replica; what waits is that of the whole cell."), places.schedulers), device("Waiting the longest", places.waiting));
    },
    async update(cell) {
      patch(places.tiles, ...tiles(cell));
      patch(places.resources, resources(cell));
      patch(places.schedulers, schedulers(cell));
      patch(places.replicas, replicas(cell));
      await Promise.all([map.update(cell.version), waiting()]);
    },
  };

  async function waiting() {
    const list = await ask("jobs", { state: "waiting", limit: WAITING_SHOWN });
    patch(places.waiting, table(null, [
      { name: "job", head: true, of: (row) => link("job", row.name) },
      { name: "scheduler", wide: true, of: (row) => row.scheduler },
      { name: "waiting", number: true, of: (row) => count(row.tasks.pending) },
      { name: "of", number: true, wide: true, of: (row) => count(Object.values(row.tasks).reduce((a, b) => a + b, 0)) },
      { name: "submitted", wide: true, class: "nowrap", of: (row) => `${time(row.age_ms)} ago` },
      { name: "why", class: "why", of: (row) => explanation(row.name) },
    ], list.items, "no task is pending"), list.next_page ? el("p", {}, jobsLink({ state: "pending" }, "all jobs with pending tasks")) : "");
    await tellNext(places.waiting, EXPLAINED);
  }
}
