// Recent events of a job or a machine.

import { ask } from "./api.js";
import { device, el, table } from "./dom.js";
import { time } from "./format.js";

const details = (row) => [
  row.machine && `on ${row.machine}`,
  row.scheduler && `by ${row.scheduler}`,
  row.by_job && `for ${row.by_job}`,
  row.text,
  row.end && `(${row.end})`,
].filter(Boolean).join(" ");

/** The latest events: `of` is `{ job }` or `{ machine }`, by name. */
export async function events(of) {
  const told = await ask("events", of);
  const now = Date.now();
  return device("Events", table(null, [
    { name: "ago", number: true, of: (row) => (row.at_ms ? time(Math.max(0, now - row.at_ms)) : "–") },
    { name: "of", head: true, key: (row) => [row.at_ms, row.event, row.task ?? row.job].join(" "), of: (row) => row.task ?? row.job ?? "" },
    { name: "event", of: (row) => row.event.replaceAll("_", " ") },
    { name: "details", of: details },
  ], told.items, "this replica has kept no events"),
  told.more ? el("p", { class: "quiet" }, "only the latest events; `omega job history` has more") : "");
}
