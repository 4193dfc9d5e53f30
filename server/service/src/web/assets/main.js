// Chooses the page by the address, and updates it.

import { ask } from "./api.js";
import { note } from "./rates.js";
import { el } from "./dom.js";
import { overview } from "./overview.js";
import { machine, machines } from "./machines.js";
import { job, jobs } from "./jobs.js";
import { tenants } from "./tenants.js";
import { schedulers } from "./schedulers.js";

// The server samples the cell once a second.
const EVERY_MS = 1000;

const main = document.getElementById("main");
const status = document.getElementById("status");
const notice = document.getElementById("notice");
const LISTS = { machines, jobs, tenants, schedulers };
let page = null;
let timer = 0;

/** The parts of an address: the kind of page, the name of an object, and the filters of a list. */
function parts(hash) {
  const path = hash.replace(/^#\/?/, "");
  const [list, query] = path.split(/\?(.*)/s);
  if (Object.hasOwn(LISTS, list)) return { kind: list, asked: new URLSearchParams(query) };
  const [kind, ...rest] = path.split("/");
  return { kind, name: decoded(rest.join("/")) };
}

/** A page is { title, begin(main), update(cell)? }. */
function choose({ kind, name, asked }) {
  if (asked) return LISTS[kind](asked);
  if (kind === "machine" && name) return machine(name);
  if (kind === "job" && name) return job(name);
  return overview();
}

/** Decodes a name in an address; a typed name that is not encoded correctly is used as it is. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function say(text, bad = false) {
  if (status.textContent !== text) status.textContent = text;
  status.classList.toggle("bad", bad);
}

/** A notice on the pages of a follower. The web addresses of other replicas are not known, so it has no link. */
function warn(cell) {
  const follows = cell.replicas.length > 0 && cell.leader !== cell.replica;
  const leader = cell.leader ? `the leader is r${cell.leader}` : "no leader is known";
  const text = follows ? `This replica is a follower; its data may be behind (${leader}).` : "";
  if (notice.textContent !== text) notice.textContent = text;
  notice.hidden = !follows;
}

async function refresh() {
  clearTimeout(timer);
  const shown = page;
  try {
    const cell = await ask("cell");
    note(cell);
    warn(cell);
    if (shown === page) await page.update?.(cell);
    const leads = cell.leader === cell.replica ? "leads" : cell.leader ? `follows r${cell.leader}` : cell.replicas.length ? "no leader" : "in memory";
    say(`replica r${cell.replica} · ${leads}`);
  } catch (error) {
    say(error instanceof TypeError ? "the server does not answer" : error.message, true);
  }
  if (shown === page) timer = setTimeout(refresh, document.hidden ? EVERY_MS * 10 : EVERY_MS);
}

function show(focus) {
  if (location.hash === "#main") return;
  const address = parts(location.hash);
  page = choose(address);
  document.title = `${page.title} · omega`;
  const here = `#/${address.kind.replace(/^(machine|job)$/, "$1s")}`;
  for (const one of document.querySelectorAll("nav a")) {
    if (one.getAttribute("href") === here) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  main.replaceChildren(el("h1", {}, page.title));
  page.begin(main);
  if (focus) main.focus();
  refresh();
}

addEventListener("hashchange", () => show(true));
addEventListener("visibilitychange", () => document.hidden || refresh());
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
show(false);
