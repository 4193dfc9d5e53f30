// Rates from counters. The server keeps no history, so the page keeps the samples of the last seconds.

const WINDOW_MS = 5000;
const seen = [];

function sums(cell) {
  const all = { version: cell.version, committed: 0, conflicted: 0, claims: 0, placements: 0 };
  const each = {};
  for (const one of cell.schedulers) {
    each[one.name] = { committed: one.committed, conflicted: one.conflicted, claims: one.claims, placements: one.placements };
    for (const name of Object.keys(each[one.name])) all[name] += one[name];
  }
  return { all, each };
}

/** Adds a sample of the cell's counters. */
export function note(cell) {
  if (seen.length && seen[0].started !== cell.started) seen.length = 0;
  seen.push({ at: cell.uptime_ms, started: cell.started, ...sums(cell) });
  while (seen.length > 2 && seen[seen.length - 1].at - seen[1].at >= WINDOW_MS) seen.shift();
}

/** Recent rate per second of a counter, of all schedulers or of one; null if it is not known yet. */
export function perSecond(name, scheduler = null) {
  const [first, last] = [seen[0], seen[seen.length - 1]];
  if (seen.length < 2 || last.at <= first.at) return null;
  const of = (one) => (scheduler === null ? one.all : one.each[scheduler])?.[name] ?? 0;
  return Math.max(0, of(last) - of(first)) / ((last.at - first.at) / 1000);
}

/** Percentage of the recent transactions with a conflict; null without transactions. */
export function conflictPercent(scheduler = null) {
  const [committed, conflicted] = [perSecond("committed", scheduler), perSecond("conflicted", scheduler)];
  if (committed === null || committed + conflicted === 0) return null;
  return (conflicted / (committed + conflicted)) * 100;
}
