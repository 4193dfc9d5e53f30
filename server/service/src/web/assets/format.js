// Amounts, counts, reasons and times as people read them.

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** A count with separators. */
export function count(number) {
  return Math.round(number).toLocaleString("en-US");
}

/** A count with its noun: `1 task`, `2 tasks`. */
export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** An amount of a resource, by its unit: `milli`, `bytes` or `count`. */
export function amount(unit, value) {
  if (unit === "bytes") {
    let step = 0;
    let scaled = value;
    for (; scaled >= 1024 && step + 1 < BINARY.length; step += 1) scaled /= 1024;
    return `${scaled.toFixed(step === 0 || scaled >= 100 ? 0 : 1)} ${BINARY[step]}`;
  }
  if (unit === "milli") {
    const whole = value / 1000;
    return whole % 1 && whole < 1000 ? String(whole) : count(whole);
  }
  return count(value);
}

/** A command line, with quotes and escapes where a word has other characters than usual. */
export function commandLine(words) {
  const escape = (character) => `\\u{${character.codePointAt(0).toString(16)}}`;
  const quoted = (word) => (/^[\w%+,./:=@-]+$/.test(word) ? word : JSON.stringify(word));
  return words.map((word) => quoted(word).replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, escape)).join(" ");
}

/** A share in percent; null if the whole is 0. */
export function percent(part, whole) {
  return whole > 0 ? Math.round((part / whole) * 100) : null;
}

/** A rate per second; null if it is not known yet. */
export function rate(perSecond) {
  if (perSecond === null) return "…";
  return perSecond >= 10 || perSecond === 0 ? count(perSecond) : perSecond.toFixed(1);
}

/** Reasons with their numbers, the most frequent first. */
export function reasons(of) {
  return Object.entries(of).sort((a, b) => b[1] - a[1]).slice(0, 3)
    .map(([reason, items]) => `${reason.toLowerCase().replaceAll("_", " ")} ${count(items)}`).join(", ") || "none";
}

/** A time in milliseconds. */
export function time(ms) {
  const seconds = Math.round(ms / 1000);
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}
