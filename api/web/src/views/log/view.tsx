// The log: every event the reader may know of, newest first, live; one of them opened beside.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { usePages } from "../../net/answer";
import type { Ask } from "../../net/send";
import { Empty, Fault, View } from "../../parts/frame";
import { Clock, NameText, Relation } from "../../parts/names";
import { Rows } from "../../parts/rows";
import { count, kindText, plural, visible } from "../../parts/text";
import { addressOf, amend, at, momentQuery, param } from "../../state/place";
import { head } from "../../state/moments";
import { partition, type LogEvent, type LogPage } from "./types";
import { EventDetail } from "./event";

const PAGE = 200;
const ROW = 44;
/** So many newer events stand above one that was gone to. */
const ABOVE = 5;
const FILTERS = ["kind", "stream", "actor", "peer", "entity"] as const;
const KINDS = [
  "fact_asserted", "fact_retracted", "conflict_resolved", "fact_attributes_set", "fact_erased", "episode_recorded",
  "delta_applied", "summary_recorded", "recall_answered", "recall_served", "decay_swept", "source_trust_set", "alias_set",
  "garden_created", "garden_member_set", "quarantine_reviewed", "legal_hold_set", "key_issued", "key_revoked",
  "peer_declared", "peer_state_set", "peer_page_received", "peer_equivocated", "policy_set", "profile_set",
  "embedding_model_pinned", "epoch_started",
];

export const LogView = (): JSX.Element => {
  const opened = Number(param("event")) || null;
  const filtered = FILTERS.some((name) => param(name) !== "");
  const live = at.value === "" && param("tail") !== "off";
  const list = (last: number): Record<string, string> => ({ tail: "off", held: String(Math.min(head.value, Math.max(1, last))) });
  // A link to an event of long ago: the list begins there too.
  const begins = useRef<number | null>(null);
  if (begins.current === null && head.value > 0)
    begins.current = opened !== null && live && !filtered && param("pages") === "" && opened < head.value - PAGE ? opened + ABOVE : 0;
  useEffect(() => {
    if (begins.current) amend(list(begins.current), true);
    if (begins.current !== null) begins.current = 0;
  }, [head.value > 0]);
  const until = param("tail") === "off" && at.value === "" ? Number(param("held")) : begins.current || head.value;
  const filters = Object.fromEntries(FILTERS.map((name) => [name, param(name)]));
  const ask: Ask | null = until > 0 ? {
    path: "/v1/log", query: { ...filters, ...(at.value === "" ? { before: until + 1 } : momentQuery.value), limit: PAGE },
  } : null;
  const found = usePages<LogPage, LogEvent>(ask, (page, asked) => ({
    rows: page.events,
    total: null,
    next: page.next_before === null ? null : { ...asked, query: { ...asked.query, before: page.next_before } },
  }));
  const seen = (name: "entity" | "actor" | "stream" | "peer"): string[] =>
    [...new Set((found.data ?? []).flatMap((event) => (event[name] === null ? [] : [name === "stream" ? partition(event.stream) : event[name]])))].slice(0, 50);
  const positions = (found.data ?? []).map(({ position }) => position);
  const place = opened === null ? -1 : positions.indexOf(opened);
  const detailAsk: Ask | null = opened === null ? null : { path: `/v1/log/${opened}` };
  return (
    <View title="Log" wide asks={[ask, detailAsk]} lead={live ? "Every event as it comes, newest first" : `Events up to ${at.value === "" ? count(until) : visible(at.value)}, newest first`}
      actions={at.value === "" && (
        <button type="button" aria-pressed={live} class={live ? "live on" : "live"}
          onClick={() => amend(live ? { tail: "off", held: String(head.value) } : { tail: "", held: "" })}>
          {live ? "Live" : "Paused"}
        </button>
      )}>
      <form class="form-line" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
        <label>Kind
          <input list="kinds" value={param("kind")} onChange={(event) => amend({ kind: event.currentTarget.value.trim().replaceAll(" ", "_") })} placeholder="any" size={18} />
        </label>
        {(["entity", "actor", "stream", "peer"] as const).map((name) => <datalist key={name} id={`seen-${name}`}>{seen(name).map((each) => <option key={each} value={each} />)}</datalist>)}
        <datalist id="kinds">{KINDS.map((kind) => <option key={kind} value={kind} />)}</datalist>
        {(["entity", "actor", "stream", "peer"] as const).map((name) => (
          <label key={name} class={name === "entity" || param(name) !== "" ? "" : "roomy"}>{name[0]?.toUpperCase()}{name.slice(1)}
            <input value={param(name)} list={`seen-${name}`} onChange={(event) => amend({ [name]: event.currentTarget.value.trim() })} placeholder="any" size={name === "entity" ? 24 : 14} spellcheck={false} />
          </label>
        ))}
        {filtered && (
          <button type="button" onClick={() => amend(Object.fromEntries(FILTERS.map((name) => [name, ""])))}>Clear</button>
        )}
        {at.value === "" && !filtered && (
          <label>Event
            <input type="number" min={1} max={head.value} value={opened ?? ""} size={9} placeholder="number" onChange={(event) => {
              const to = Number(event.currentTarget.value);
              if (to >= 1) amend({ event: String(to), ...list(to + ABOVE) });
            }} />
          </label>
        )}
        {at.value === "" && !filtered && (
          <span class="choices" role="group" aria-label="Where in the log">
            <button type="button" disabled={live} onClick={() => amend({ tail: "", held: "" })}>Newest</button>
            <button type="button" disabled={until >= head.value} onClick={() => amend(list(until + PAGE))}>Newer</button>
            <button type="button" disabled={until <= PAGE} onClick={() => amend(list(until - PAGE))}>Older</button>
            <button type="button" disabled={until <= PAGE} onClick={() => amend(list(PAGE))}>Oldest</button>
          </span>
        )}
      </form>
      <Fault fault={found.fault} />
      <div class={opened === null ? "log" : "log with-event"}>
        <div class="log-list">
          {found.data !== null && (
            <Rows rows={found.data} label="Events, newest first" height={ROW} keyOf={(event) => event.position} more={found.more}
              draw={(event) => <EventRow event={event} opened={event.position === opened} />} />
          )}
          {found.data?.length === 0 && <Empty>{found.more === null ? "No event that you may know of passes these filters." : "None among the newest; looking further back."}</Empty>}
          {found.data !== null && found.more === null && found.data.length > 0 && <p class="muted end">{plural(found.data.length, "event")}: {filtered ? "no older one passes these filters." : "this is where the log begins for you."}</p>}
        </div>
        {detailAsk !== null && <EventDetail ask={detailAsk} newer={place < 1 ? null : positions[place - 1] ?? null} older={place < 0 ? null : positions[place + 1] ?? null} />}
      </div>
    </View>
  );
};

const EventRow = ({ event, opened }: { event: LogEvent; opened: boolean }): JSX.Element => (
  <a class={opened ? "event-row opened" : "event-row"} href={addressOf("log", keptParams({ event: String(event.position) }))} aria-current={opened ? "true" : undefined}>
    <span class="event-position">{count(event.position)}</span>
    <span class={`event-kind kind-${family(event.kind)}`}>{kindText(event.kind)}</span>
    <span class="event-about">
      <About event={event} />
    </span>
    <span class="event-actor"><NameText uri={event.actor} /></span>
    <Clock at={event.received_at} />
  </a>
);

/** What an event is about: a fact, a few words, or at least its stream. */
export const About = ({ event }: { event: LogEvent }): JSX.Element => (
  <>
    {event.entity !== null && <><NameText uri={event.entity} /> {event.relation !== null && <Relation name={event.relation} />}{event.facts > 1 && <span class="muted"> and {count(event.facts - 1)} more</span>} </>}
    {event.about !== null && <bdi class={event.kind === "recall_answered" ? "asked" : ""} title={visible(event.about)}>{visible(event.about.replaceAll(/\bstigmem:\/\/[^/\s]+\//g, ""))}</bdi>}
    {event.kind === "recall_answered" && <span class="muted"> {plural(event.facts, "fact")}</span>}
    {event.entity === null && event.about === null && <span class="muted">{visible(partition(event.stream))}</span>}
  </>
);

export const keptParams = (params: Record<string, string>): Record<string, string> => ({
  ...Object.fromEntries([...FILTERS, "tail", "held", "pages"].map((name) => [name, param(name)])),
  ...params,
});

/** Colour says what an event does: states, ends, settles, tells, or keeps the house. */
const family = (kind: string): string => {
  if (/asserted|recorded|applied/.test(kind)) return "states";
  if (/retracted|erased|revoked|rejected|swept/.test(kind)) return "ends";
  if (/resolved|reviewed|attributes|feedback/.test(kind)) return "settles";
  if (/recall|access/.test(kind)) return "tells";
  return "house";
};
