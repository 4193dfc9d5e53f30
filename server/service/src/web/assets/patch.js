// Updates of the page in place. An element whose content has not changed stays in the page, and with it the focus,
// selected text, scroll positions, and a click that has begun.

/** The attribute of <details> that the reader changes: updates leave it alone. */
const READERS_OWN = "open";

/**
 * Makes the content of an element equal to these children, and keeps the elements that correspond to them: those with
 * the same key, or without a key, those at the same position. An element that is kept also keeps its listeners, so
 * listeners may use only what stays the same for the key.
 */
export function patch(place, ...children) {
  const focused = document.activeElement;
  arrange(place, children.flat().filter((child) => child !== null && child !== undefined)
    .map((child) => (child instanceof Node ? child : document.createTextNode(child))));
  // An element that was moved has lost the focus.
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
}

function arrange(place, wanted) {
  const own = new Set(wanted.filter((node) => node.parentNode === place));
  const present = [...place.childNodes].filter((node) => !own.has(node));
  const byKey = new Map(present.filter((node) => node.key !== undefined).map((node) => [node.key, node]));
  const rest = present.filter((node) => node.key === undefined).values();
  const nodes = wanted.map((node) => {
    if (own.has(node)) return node;
    const old = node.key === undefined ? rest.next().value : byKey.get(node.key);
    byKey.delete(node.key);
    return old?.nodeName === node.nodeName ? merge(old, node) : node;
  });
  const stay = new Set(nodes);
  present.filter((node) => !stay.has(node)).forEach((node) => node.remove());
  let next = place.firstChild;
  for (const node of nodes) {
    if (node === next) next = next.nextSibling;
    // The skipped node is moved in its turn: moving one node back must not move all that follow it.
    else if (next && node === next.nextSibling) next = node.nextSibling;
    else place.insertBefore(node, next);
  }
}

/** Makes an element, or a text, equal to another one, and returns it. */
function merge(old, made) {
  if (old.isEqualNode(made)) return old;
  if (old.nodeType === Node.TEXT_NODE) {
    old.data = made.data;
    return old;
  }
  for (const { name } of [...old.attributes]) {
    if (name !== READERS_OWN && !made.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of made.attributes) {
    if (name === READERS_OWN || old.getAttribute(name) === value) continue;
    // The Content-Security-Policy forbids style attributes, but not styles that a script sets.
    if (name === "style") old.style.cssText = made.style.cssText;
    else old.setAttribute(name, value);
  }
  arrange(old, [...made.childNodes]);
  return old;
}
