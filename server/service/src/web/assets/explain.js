// Explanations of pending jobs. Each one examines the whole cell, so it is requested when the user opens it, and for
// the first few jobs one at a time; answers are cached for a while.

import { ask } from "./api.js";
import { el } from "./dom.js";

const FRESH_MS = 15000;
const KEPT_MAX = 200;
const known = new Map();
let isAsking = false;

/** The explanation of a job, which is requested when it is opened; with `open`, at once. */
export function explanation(job, open = false) {
  const summary = el("summary", {}, known.get(job)?.summary ?? "why?");
  const text = el("pre", { tabindex: "0", "aria-label": "explanation" }, known.get(job)?.text ?? "…");
  const details = el("details", { "data-job": job, ontoggle: () => details.open && show(details) }, summary, text);
  if (open) details.open = true;
  return details;
}

/** Requests the first outdated one of the first `count` explanations in an element. */
export async function tellNext(place, count) {
  const stale = ({ dataset }) => performance.now() - (known.get(dataset.job)?.at ?? -FRESH_MS) >= FRESH_MS;
  const next = [...place.querySelectorAll("details[data-job]")].slice(0, count).find(stale);
  if (next && !isAsking) await show(next);
}

async function show(details) {
  const job = details.dataset.job;
  const [summary, text] = details.children;
  isAsking = true;
  try {
    const told = await ask("explain", { job });
    if (known.size >= KEPT_MAX) known.clear();
    known.set(job, { at: performance.now(), summary: told.summary, text: told.text });
    summary.textContent = told.summary;
    text.textContent = told.text;
  } catch (error) {
    known.set(job, { at: performance.now(), summary: "why?", text: error.message });
    text.textContent = error.message;
  } finally {
    isAsking = false;
  }
}
