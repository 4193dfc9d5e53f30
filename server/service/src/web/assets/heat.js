// The heat map: the use of machines, by rack or zone, on a canvas that is drawn in one pass, and as a table.

import { ask } from "./api.js";
import { bar, el, link, table } from "./dom.js";
import { count, plural } from "./format.js";
import { patch } from "./patch.js";

const GAP = 1;
const LABEL = 16;
const EVERY_MS = 2000;

/** The heat map: its element, and the function that updates it: { place, update(version) }. */
export function heat() {
  const canvas = el("canvas", { role: "img", onmousemove: point, onclick: go, onmouseleave: () => { tip.textContent = ""; } });
  const tip = el("p", { class: "tip quiet", "aria-hidden": "true" });
  const resource = el("select", { onchange: draw });
  const level = el("select", { onchange: () => { domain = null; load(); } });
  const back = el("button", { type: "button", hidden: true, onclick: () => { domain = null; load(); } }, "all domains");
  const rows = el("div");
  const asTable = el("details", { ontoggle: listed }, el("summary", {}, "Show as a table"), rows);
  let data = null;
  let domain = null;
  let boxes = [];
  let asked = { version: -1, at: -Infinity };
  const place = el("div", { class: "heat" },
    el("form", { onsubmit: (event) => event.preventDefault() }, el("label", {}, "resource", resource), el("label", {}, "grouped by", level), back),
    canvas,
    el("ul", { class: "legend" }, el("li", {}, "0 % ", el("span", { class: "ramp" }), " 100 %"),
      el("li", {}, el("span", { class: "swatch over" }), "claimed beyond capacity"),
      el("li", {}, el("span", { class: "swatch none" }), "has none of this resource"),
      el("li", {}, el("span", { class: "swatch drain" }), "draining"),
      el("li", {}, el("span", { class: "swatch gone" }), "unreachable")),
    tip, asTable);
  new ResizeObserver(() => data && draw()).observe(place);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => data && draw());
  return { place, update };

  async function update(version) {
    const now = performance.now();
    if (version !== asked.version && now - asked.at >= EVERY_MS) {
      asked = { version, at: now };
      await load();
    }
  }

  async function load() {
    data = await ask("heat", { level: data ? level.value : null, domain });
    options(resource, data.resources.map((name) => [name, name]), resource.value || data.resources[0]);
    options(level, [...data.levels.map((name) => [name, name]), ["", "nothing"]], data.level ?? "");
    back.hidden = domain === null;
    draw();
    listed();
  }

  function kind() {
    return Math.max(0, data.resources.indexOf(resource.value));
  }

  /** Groups of squares to draw, each with a name and the index of a domain or a machine for each square. */
  function groups() {
    if (!data.machines) {
      return [{ name: "", items: data.domains.map((one, index) => ({ domain: index, taken: one.taken[kind()] ?? -1, draining: one.draining === one.machines, unreachable: one.unreachable === one.machines })) }];
    }
    const all = data.domains.map((one) => ({ name: one.name, items: [] }));
    const taken = data.machines.taken[kind()];
    data.machines.name.forEach((_, index) => all[data.machines.domain[index]].items.push(
      { machine: index, taken: taken[index], draining: data.machines.draining[index] === 1,
        unreachable: data.machines.unreachable[index] === 1 }));
    return all;
  }

  function draw() {
    const all = groups();
    const total = all.reduce((sum, one) => sum + one.items.length, 0);
    const width = Math.max(200, canvas.parentElement.clientWidth);
    const named = all.length > 1 || all[0]?.name !== "";
    const layout = fit(all, total, width, named);
    const ratio = devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(layout.height * ratio);
    canvas.style.height = `${layout.height}px`;
    const paint = canvas.getContext("2d");
    paint.scale(ratio, ratio);
    paint.clearRect(0, 0, width, layout.height);
    const colours = palette();
    paint.font = "12px system-ui, sans-serif";
    boxes = [];
    for (const group of layout.groups) {
      if (named && layout.labels) {
        paint.fillStyle = colours.quiet;
        paint.fillText(clip(paint, group.name || "(none)", group.width), group.x, group.y + 11);
      }
      group.items.forEach((item, index) => {
        const x = group.x + (index % group.columns) * layout.step;
        const y = group.y + (named && layout.labels ? LABEL : 0) + Math.floor(index / group.columns) * layout.step;
        const side = layout.step - GAP;
        paint.fillStyle = colours.of(item.taken);
        paint.fillRect(x, y, side, side);
        if ((item.draining || item.unreachable) && side > 3) {
          paint.strokeStyle = item.unreachable ? colours.gone : colours.drain;
          paint.lineWidth = Math.min(2, side / 4);
          paint.strokeRect(x + 1, y + 1, side - 2, side - 2);
        }
        boxes.push({ x, y, side, item });
      });
    }
    const what = data.machines ? plural(total, "machine") : plural(total, "domain");
    canvas.setAttribute("aria-label", `${what} by their share of ${resource.value} in use; the table below has the same data`);
  }

  function under(event) {
    const frame = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    return boxes.find((box) => x >= box.x && x < box.x + box.side + GAP && y >= box.y && y < box.y + box.side + GAP)?.item;
  }

  function point(event) {
    const item = under(event);
    canvas.style.cursor = item ? "pointer" : "";
    if (!item) return;
    const of = (taken) => (taken < 0 ? `has no ${resource.value}` : `${taken} % of ${resource.value} taken`);
    const one = data.domains[item.domain ?? data.machines.domain[item.machine]];
    tip.textContent = item.domain === undefined
      ? `${data.machines.name[item.machine]}${one.name ? ` in ${one.name}` : ""}: ${of(item.taken)}${item.unreachable ? ", unreachable" : item.draining ? ", draining" : ""}`
      : `${one.name || "(none)"}, ${plural(one.machines, "machine")}: ${of(item.taken)}`;
  }

  function go(event) {
    const item = under(event);
    if (item?.machine !== undefined) location.hash = `#/machine/${encodeURIComponent(data.machines.name[item.machine])}`;
    else if (item) open(data.domains[item.domain].name);
  }

  function open(name) {
    domain = name;
    load();
  }

  /** The table: domains with their shares, or the machines of the open domain. */
  function listed() {
    if (!asTable.open || !data) return;
    const shares = (of) => data.resources.map((name, index) => ({ name, number: true, of: (row) => { const taken = of(row, index); return taken === null || taken < 0 ? "–" : `${taken} %`; } }))
      .filter((_, index) => data.domains.some((one) => one.taken[index] !== null));
    if (domain !== null && data.machines) {
      const machines = data.machines.name.map((name, index) => ({ name, index }));
      patch(rows, table(`Machines of ${domain || "(none)"}`, [
        { name: "machine", head: true, of: (row) => link("machine", row.name) },
        ...shares((row, index) => data.machines.taken[index][row.index]),
      ], machines));
      return;
    }
    patch(rows, table("Share of each resource in use", [
      { name: data.level ?? "all", head: true, of: (row) => el("button", { type: "button", onclick: () => open(row.name) }, row.name || "(none)") },
      { name: "machines", number: true, of: (row) => count(row.machines) },
      { name: "", of: (row) => bar(row.taken[kind()]) },
      ...shares((row, index) => row.taken[index]),
    ], data.domains));
  }
}

function options(select, all, chosen) {
  const now = JSON.stringify(all);
  if (select.dataset.all !== now) {
    select.dataset.all = now;
    select.replaceChildren(...all.map(([value, name]) => el("option", { value }, name)));
  }
  select.value = chosen;
}

/** The largest squares with which all groups fit below each other in a reasonable height. */
function fit(all, total, width, named) {
  const heightMax = Math.min(520, Math.max(120, width * 0.6));
  let last = null;
  for (const step of [40, 32, 26, 22, 18, 15, 12, 10, 8, 7, 6, 5, 4, 3]) {
    last = pack(all, width, step, named && (step >= 12 || all.length <= 60));
    if (last.height <= heightMax) break;
  }
  return last;
}

/** Groups beside each other, in lines; a group that is wider than a line has several rows. */
function pack(all, width, step, labels) {
  const space = all.length > 1 ? Math.max(6, step / 2) : 0;
  const groups = [];
  let [x, y, line] = [0, 0, 0];
  for (const { name, items } of all) {
    const fitting = Math.max(1, Math.floor(width / step));
    const square = Math.ceil(Math.sqrt(items.length * 2.5));
    const columns = all.length === 1 ? fitting : Math.min(fitting, Math.max(square, labels ? Math.ceil(36 / step) : 1));
    const w = columns * step;
    const h = Math.ceil(items.length / columns) * step + (labels ? LABEL : 0);
    if (x > 0 && x + w > width) [x, y, line] = [0, y + line + space, 0];
    groups.push({ name, items, columns, x, y, width: w });
    x += w + space;
    line = Math.max(line, h);
  }
  return { groups, height: y + line, step, labels };
}

function clip(paint, text, width) {
  if (paint.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && paint.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
  return `${text.slice(0, end)}…`;
}

/** The colours of the style sheet, and one for each percent. */
function palette() {
  const style = getComputedStyle(document.documentElement);
  const named = (name) => style.getPropertyValue(name).trim();
  const parts = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  const [cold, mild, hot] = ["--cold", "--mild", "--hot"].map((name) => parts(named(name)));
  const between = (a, b, part) => `rgb(${a.map((one, index) => Math.round(one + (b[index] - one) * part)).join(",")})`;
  const ramp = Array.from({ length: 101 }, (_, at) => (at < 50 ? between(cold, mild, at / 50) : between(mild, hot, (at - 50) / 50)));
  const [none, over] = [named("--none"), named("--over")];
  return { quiet: named("--quiet"), drain: named("--drain"), gone: named("--gone"), of: (taken) => (taken < 0 ? none : taken > 100 ? over : ramp[taken]) };
}
