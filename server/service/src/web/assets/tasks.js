// The table of tasks, on the page of a job and on that of a machine.

import { link, table } from "./dom.js";

/** Tasks of a job or of a machine. */
export function taskTable(tasks, { job }) {
  return table(null, [
    { name: "task", head: true, of: (row) => row.task },
    ...(job ? [{ name: "job", of: (row) => link("job", row.job) }] : []),
    { name: "group", of: (row) => row.group },
    { name: "state", of: (row) => row.state },
    ...(job ? [] : [{ name: "machine", of: (row) => (row.machine ? link("machine", row.machine) : "–") }]),
  ], tasks, "none");
}
