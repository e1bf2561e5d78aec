// The frame around the views: search and key at the top, the views at the side, time at the bottom.
import type { ComponentType, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Icon, type IconName } from "../parts/icons";
import { addressOf, param, place } from "../state/place";
import { anonymous, key, me } from "../state/session";
import { visible } from "../parts/text";
import { ready, unreachable } from "./heartbeat";
import { KeyForm } from "./key";
import { SearchField } from "./search";
import { TimeBar } from "./timebar";
import { ThemeChoice } from "./theme";
import { SearchView } from "../views/search";

interface Shown {
  readonly label: string;
  readonly icon: IconName;
  readonly load: () => Promise<ComponentType>;
  /** The field of the address that says what to show: reached from other views, not listed at the side. */
  readonly of?: string;
  /** What it shows does not depend on the moment. */
  readonly timeless?: boolean;
}

const VIEWS: Record<string, Shown> = {
  search: { label: "Search", icon: "search", load: () => Promise.resolve(SearchView) },
  entity: { label: "Entity", icon: "search", of: "name", load: () => import("../views/entity").then((m) => m.EntityView) },
  fact: { label: "Fact", icon: "search", of: "id", load: () => import("../views/fact").then((m) => m.FactView) },
  graph: { label: "Graph", icon: "graph", load: () => import("../views/graph/view").then((m) => m.GraphView) },
  time: { label: "Time", icon: "time", load: () => import("../views/time").then((m) => m.TimeView) },
  recall: { label: "Recall", icon: "recall", load: () => import("../views/recall/view").then((m) => m.RecallView) },
  log: { label: "Log", icon: "log", load: () => import("../views/log/view").then((m) => m.LogView) },
  review: { label: "Review", icon: "review", load: () => import("../views/review/view").then((m) => m.ReviewView) },
  peers: { label: "Peers", icon: "peers", timeless: true, load: () => import("../views/peers/view").then((m) => m.PeersView) },
  operations: { label: "Operations", icon: "operations", timeless: true, load: () => import("../views/operations/view").then((m) => m.OperationsView) },
  sql: { label: "SQL", icon: "sql", load: () => import("../views/sql").then((m) => m.SqlView) },
  start: { label: "Start", icon: "start", timeless: true, load: () => import("../views/start").then((m) => m.StartView) },
};

const loaded = new Map<string, ComponentType>([["search", SearchView]]);
const missing = new Set<string>();

export const App = (): JSX.Element => {
  const known = Object.hasOwn(VIEWS, place.value.view);
  const name = known ? place.value.view : "search";
  const shown = VIEWS[name] as Shown;
  const [, redraw] = useState(0);
  const Chosen = loaded.get(name);
  useEffect(() => {
    if (loaded.has(name)) return;
    void shown.load().then(
      (component) => loaded.set(name, component),
      () => missing.add(name), // asked for again when the node answers
    ).then(() => redraw((before) => before + 1));
  }, [name, unreachable.value]);
  useEffect(() => {
    document.title = `${shown.label} · engramlog`;
  }, [name]);
  return (
    <div class="shell">
      <a class="skip" href="#content" onClick={(event) => {
        event.preventDefault();
        document.querySelector<HTMLElement>("#content h1")?.focus();
      }}>Skip to the content</a>
      <header class="top">
        <a class="brand" href={addressOf("search", { q: "" })} aria-label="engramlog, start page">
          <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
            <rect class="brand-ground" width="32" height="32" rx="7" />
            <path class="brand-lines" d="M8 10h16M8 16h11M8 22h6" />
            <circle class="brand-dot" cx="23" cy="21" r="3.2" />
          </svg>
          <span>engramlog</span>
        </a>
        <SearchField />
        <div class="top-tools">
          <ThemeChoice />
          <KeyForm />
        </div>
      </header>
      <Navigation current={known ? name : ""} />
      <main id="content">
        <Notices />
        {me.value === "none" ? <SignIn /> : !known ? <Unknown view={place.value.view} /> : shown.of !== undefined && param(shown.of) === "" ? <Unnamed view={name} field={shown.of} /> : Chosen === undefined ? <Loading missing={missing.has(name)} /> : <Chosen />}
      </main>
      <TimeBar idle={shown.timeless ?? false} />
    </div>
  );
};

/** A node of another version has other files. */
const Loading = ({ missing }: { missing: boolean }): JSX.Element => (
  <p class="empty" role="status">{missing ? "This view did not load. Reload the page." : "…"}</p>
);

/** An address typed, or of another version. */
const Unknown = ({ view }: { view: string }): JSX.Element => (
  <div class="view narrow">
    <h1 tabIndex={-1}>There is no such view</h1>
    <p><code>{visible(view)}</code> is none of those listed. <a href={addressOf("search")}>Go to Search</a>.</p>
  </div>
);

/** An address typed or cut short: it names nothing to show. */
const Unnamed = ({ view, field }: { view: string; field: string }): JSX.Element => (
  <div class="view narrow">
    <h1 tabIndex={-1}>This address names no {view}</h1>
    <p>It lacks <code>?{field}=</code>. <a href={addressOf("search")}>Search for one</a>.</p>
  </div>
);

const IN_FRONT = 4;

const Navigation = ({ current }: { current: string }): JSX.Element => {
  const [open, setOpen] = useState(false);
  const listed = Object.entries(VIEWS).filter(([, each]) => each.of === undefined);
  const section = VIEWS[current]?.of === undefined ? current : "search";
  return (
    <nav class={open ? "side open" : "side"} aria-label="Views">
      {listed.map(([name, { label, icon }], place) => (
        <a key={name} class={place < IN_FRONT || name === section ? "front" : ""} href={addressOf(name)}
          aria-current={name === section ? "page" : undefined} onClick={() => setOpen(false)}>
          <Icon name={icon} /> <span>{label}</span>
        </a>
      ))}
      <button type="button" class="side-more" aria-expanded={open} onClick={() => setOpen(!open)}>
        <Icon name="menu" /> <span>More</span>
      </button>
    </nav>
  );
};

const Notices = (): JSX.Element => (
  <>
    {unreachable.value && (
      <p class="notice bad" role="alert"><Icon name="warn" /> <span>The node does not answer. What you see may be old.</span></p>
    )}
    {ready.value?.status === "degraded" && (
      <p class="notice warn" role="alert"><Icon name="warn" /> <span>The node is degraded: {visible(ready.value.reason ?? "")}</span></p>
    )}
    {anonymous.value && ready.value !== null && place.value.view === "operations" && (
      <p class="notice"><Icon name="key" /> <span>This node asks for no key. What needs more than reading and writing needs one.</span></p>
    )}
  </>
);

const SignIn = (): JSX.Element => (
  <div class="view narrow">
    <h1 tabIndex={-1}>{key.value ? "The node refuses this key" : "This node asks for a key"}</h1>
    {key.value && <p role="alert">It is not a key of this node, was revoked, or has expired.</p>}
    <p>Give an API key at the top of the page. It stays in this tab, and is forgotten when the tab is closed.</p>
    <pre class="command" tabIndex={0}>engramlog key create --help</pre>
  </div>
);
