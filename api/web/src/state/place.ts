// Where the reader is: the view and everything chosen in it. The address is the state, so a
// reload, a bookmark and the Back button all lead to the same page. It stands behind the `#`:
// what is looked at never reaches a server's access log.
import { computed, signal } from "@preact/signals";

export type Params = Record<string, string>;
export interface Place {
  readonly view: string;
  readonly params: Params;
}

/** What goes along from view to view: the moment looked at, and the scope. */
const CARRIED = ["at", "scope", "axis"] as const;

const read = (hash: string): Place => {
  const whole = hash.replace(/^#\/?/, "");
  const mark = whole.indexOf("?");
  const [path, query] = mark < 0 ? [whole, ""] : [whole.slice(0, mark), whole.slice(mark + 1)];
  return { view: path || "search", params: Object.fromEntries(new URLSearchParams(query)) };
};

const write = ({ view, params }: Place): string => {
  const given = Object.entries(params).filter(([, value]) => value !== "");
  const query = new URLSearchParams(given).toString().replaceAll("%3A", ":").replaceAll("%2F", "/");
  return `#/${view}${query ? `?${query}` : ""}`;
};

export const place = signal<Place>(read(location.hash));
window.addEventListener("hashchange", () => {
  place.value = read(location.hash);
});

export const param = (name: string): string => place.value.params[name] ?? "";

/** The address of a view; the moment and the scope go along unless they are named anew. */
export const addressOf = (view: string, params: Params = {}): string => {
  const carried: Params = {};
  for (const name of CARRIED) carried[name] = param(name);
  return write({ view, params: { ...carried, ...params } });
};

/** Change some parameters of this view. `quietly` adds no step to the history, and keeps how far a
 * list has been read. */
export const amend = (params: Params, quietly = false): void => {
  const kept = quietly ? place.value.params : { ...place.value.params, pages: "" };
  const next = { view: place.value.view, params: { ...kept, ...params } };
  const address = write(next);
  if (address === location.hash) return;
  if (quietly) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  place.value = read(address);
};

export const go = (address: string): void => {
  location.hash = address;
};

/** The moment looked at, as the routes take it; empty is now. */
export const at = computed(() => param("at"));
export const scope = computed(() => param("scope"));
export const momentQuery = computed<Params>(() => (at.value === "" ? {} : { as_of: at.value }));
