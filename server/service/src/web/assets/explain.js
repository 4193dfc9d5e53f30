// Why a job waits: asked for when somebody wants to know, because each answer looks at the whole cell.

import { ask } from "./api.js";
import { el } from "./dom.js";

/** Something to open; what it shows is asked for then, or at once where `open`. */
export function explanation(job, open = false) {
  const summary = el("summary", {}, "why?");
  const text = el("pre", { tabindex: "0", "aria-label": "explanation" }, "…");
  const details = el("details", { ontoggle: () => details.open && tell() }, summary, text);
  async function tell() {
    try {
      const told = await ask("explain", { job });
      summary.textContent = told.summary;
      text.textContent = told.text;
    } catch (error) {
      text.textContent = error.message;
    }
  }
  if (open) details.open = true;
  return details;
}
