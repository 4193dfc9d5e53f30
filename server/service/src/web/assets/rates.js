// Rates out of counters: the server keeps no history, so whoever looks remembers what it saw some seconds ago.

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

/** Notes what a cell says now. */
export function note(cell) {
  if (seen.length && seen[0].started !== cell.started) seen.length = 0;
  seen.push({ at: cell.uptime_ms, started: cell.started, ...sums(cell) });
  while (seen.length > 2 && seen[seen.length - 1].at - seen[1].at >= WINDOW_MS) seen.shift();
}

/** How often a second something happened lately, of all or of one scheduler; null if that is not known yet. */
export function perSecond(name, scheduler = null) {
  const [first, last] = [seen[0], seen[seen.length - 1]];
  if (seen.length < 2 || last.at <= first.at) return null;
  const of = (one) => (scheduler === null ? one.all : one.each[scheduler])?.[name] ?? 0;
  return Math.max(0, of(last) - of(first)) / ((last.at - first.at) / 1000);
}

/** Which part of the transactions lately was refused in part or wholly, in percent; null without any. */
export function conflictPercent(scheduler = null) {
  const [committed, conflicted] = [perSecond("committed", scheduler), perSecond("conflicted", scheduler)];
  if (committed === null || committed + conflicted === 0) return null;
  return (conflicted / (committed + conflicted)) * 100;
}
