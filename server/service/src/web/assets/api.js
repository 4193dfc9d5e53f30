// Requests to the server: docs/web.md has the routes.

/** The server's answer, or an error with the server's message and code. */
export async function ask(route, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined);
  const query = new URLSearchParams(given).toString();
  const response = await fetch(`/api/v1/${route}${query ? `?${query}` : ""}`);
  const text = await response.text();
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error(response.ok ? "the response cannot be read" : text || response.statusText);
  }
  if (!response.ok) throw Object.assign(new Error(value.message), { code: value.code });
  return value;
}
