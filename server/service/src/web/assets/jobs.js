// The page of all jobs, and the page of one job: its groups, tasks, and explanation.

import { ask } from "./api.js";
import { device, el, link, table } from "./dom.js";
import { events } from "./events.js";
import { explanation } from "./explain.js";
import { amount, commandLine, count, plural, time } from "./format.js";
import { pages } from "./pages.js";
import { patch } from "./patch.js";
import { taskTable } from "./tasks.js";

const EVERY_MS = 2000;
const STATES = ["pending", "placed", "running", "finished", "failed", "killed"];

const byState = STATES.map((state) => ({ name: state, number: true, of: (row) => count(row.tasks[state]), by: (row) => row.tasks[state] }));

/** The list of jobs. */
export function jobs(asked) {
  const state = el("select", { name: "state" },
    el("option", { value: "" }, "all"), el("option", { value: "live" }, "not ended"),
    ...STATES.map((one) => el("option", { value: one }, `with ${one} tasks`)));
  const field = (name) => ({ label: name, input: el("input", { type: "search", name }) });
  const filters = [{ label: "show", input: state }, field("tenant"), field("scheduler")];
  const self = pages({ title: "Jobs", route: "jobs", filters, asked });
  self.table = (items, order) => table(null, [
    { name: "job", head: true, of: (row) => link("job", row.name), by: (row) => row.name },
    { name: "kind", of: (row) => row.kind, by: (row) => row.kind },
    { name: "age", class: "nowrap", of: (row) => time(row.age_ms), by: (row) => row.age_ms },
    { name: "tenant", of: (row) => row.tenant, by: (row) => row.tenant },
    { name: "scheduler", of: (row) => row.scheduler, by: (row) => row.scheduler },
    { name: "precedence", number: true, of: (row) => row.precedence, by: (row) => row.precedence },
    ...byState,
  ], items, "none", order);
  return self;
}

/** The version of a job, and the result of the update to it. */
function version(job) {
  if (job.version === 0) return "0, never updated";
  const results = { complete: "its update is complete", failed: "its update failed" };
  return `${job.version}, ${results[job.update] ?? "its update is under way"}`;
}

/** The number of times that a failed program or task starts again. */
function restarts({ program, restarts: again }) {
  const { attempts, delay_ms: delay } = program.restart;
  const here = attempts > 0 && `${plural(attempts, "time")} on its machine, after ${time(Math.max(delay, 100))} or longer`;
  const elsewhere = again > 0 && (again > 65535 ? "then placed again without limit" : `then placed again ${plural(again, "time")}`);
  return [here, here ? elsewhere : elsewhere && elsewhere.replace("then ", "")].filter(Boolean).join(", ") || "never";
}

/** The programs of the groups that have one. */
function programs(groups) {
  const rows = groups.filter(({ program }) => program);
  if (rows.length === 0) return "";
  const line = ({ command, args, cut }) => commandLine([...(command ? [command] : []), ...args]) + (cut ? " …" : "");
  return device("Programs", table(null, [
    { name: "group", head: true, of: (row) => row.name },
    { name: "image", of: ({ program }) => (program.image === null ? "–" : commandLine([program.image])) },
    { name: "command", of: ({ program }) => el("code", {}, line(program) || "the image's entry point") },
    { name: "restarts after failures", of: restarts },
  ], rows));
}

/** The page of one job. */
export function job(name) {
  const place = el("div", {}, el("p", { class: "quiet" }, "…"));
  const why = el("div");
  let last = -Infinity;
  let explained = null;
  return {
    title: `Job ${name}`,
    begin: (main) => main.append(place),
    async update(cell) {
      if (performance.now() - last < EVERY_MS) return;
      last = performance.now();
      let told;
      let happened;
      try {
        [told, happened] = await Promise.all([ask("job", { name }), events({ job: name })]);
      } catch (error) {
        patch(place, el("p", { class: "bad" }, error.message));
        return;
      }
      const one = told.job;
      const unit = Object.fromEntries(cell.resources.map((kind) => [kind.name, kind.unit]));
      const request = (row) => Object.entries(row.request).map(([kind, value]) => `${kind} ${amount(unit[kind], value)}`).join(", ");
      const waiting = one.tasks.pending;
      if (explained !== waiting) {
        explained = waiting;
        why.replaceChildren(...(waiting ? [device(`Why ${plural(waiting, "task")} ${waiting === 1 ? "is" : "are"} pending`, explanation(name, true))] : []));
      }
      patch(place,
        device("Description", el("dl", { class: "facts" },
          el("dt", {}, "id"), el("dd", {}, one.id),
          el("dt", {}, "tenant"), el("dd", {}, one.tenant),
          el("dt", {}, "scheduler"), el("dd", {}, one.scheduler),
          el("dt", {}, "kind"), el("dd", {}, `${one.kind}, precedence ${one.precedence}${one.gang_min === null ? "" : `, at least ${plural(one.gang_min, "task")} together`}`),
          el("dt", {}, "version"), el("dd", {}, version(one)),
          el("dt", {}, "submitted"), el("dd", {}, `${time(one.age_ms)} ago, as this replica recorded it`))),
        why,
        device("Groups", table(null, [
          { name: "group", head: true, of: (row) => row.name },
          { name: "version", number: true, of: (row) => (row.current ? row.version : `${row.version} (old)`) },
          { name: "tasks", number: true, of: (row) => count(row.count) },
          { name: "request of each task", of: request },
          ...byState,
          { name: "requeued", number: true, of: (row) => count(row.failures) },
        ], told.groups)),
        programs(told.groups),
        device("Tasks", taskTable(told.tasks, { job: false }), told.next_page ? el("p", { class: "quiet" }, `only the first ${told.tasks.length}; \`omega task list --job\` has all`) : ""),
        happened);
    },
  };
}
