// One event: header, payload, chain, what led to it, and what it changed.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useAnswer } from "../../net/answer";
import type { Ask } from "../../net/send";
import type { Fact, Moment } from "../../net/types";
import { Empty, Fault } from "../../parts/frame";
import { Name, NameText, Relation, When, valueText } from "../../parts/names";
import { count, kindText, plural, visible } from "../../parts/text";
import { addressOf } from "../../state/place";
import { About, keptParams } from "./view";
import { Effects, Erasure } from "./effects";
import { partition, type LogEvent, type LogEventAnswer } from "./types";

interface Difference {
  readonly from: Moment;
  readonly counts: Record<string, number>;
  readonly added?: readonly Fact[];
  readonly retracted?: readonly Fact[];
  readonly decayed?: readonly Fact[];
  readonly resolved?: readonly Fact[];
}

const FACTS = 5;
const CHANGES = ["added", "retracted", "resolved", "decayed"] as const;
const SAID: Record<(typeof CHANGES)[number], string> = { added: "now known", retracted: "no longer holds", resolved: "set aside", decayed: "fell in confidence" };

interface DetailProps {
  readonly ask: Ask;
  /** The neighbours in the list beside it. */
  readonly newer: number | null;
  readonly older: number | null;
}

export const EventDetail = ({ ask, newer, older }: DetailProps): JSX.Element => {
  const { data, fault } = useAnswer<LogEventAnswer>(ask);
  const [all, setAll] = useState(false);
  if (fault !== null) return <aside class="event-detail"><Fault fault={fault} /></aside>;
  if (data === null) return <aside class="event-detail" aria-busy="true" />;
  const { event, chain } = data;
  return (
    <aside class="event-detail" aria-label={`Event ${event.position}`}>
      <div class="sheet-head">
        <h2>Event {count(event.position)}</h2>
        <span class="graph-acts">
          {([["Newer", newer], ["Older", older]] as const).map(([label, to]) => to !== null && (
            <a class="tool" key={label} href={addressOf("log", keptParams({ event: String(to) }))} title={`The next ${label.toLowerCase()} event of the list`}>{label}</a>
          ))}
          <a class="tool" href={addressOf("log", keptParams({ event: "" }))}>Close</a>
        </span>
      </div>
      <p class="event-title"><strong>{kindText(event.kind)}</strong> <span class="muted">version {event.schema_version}, by</span> <NameText uri={event.actor} /></p>
      {chain !== null && <Chain chain={chain} event={event} />}
      {data.causes.length + data.consequences.length > 0 && <Path data={data} />}
      <h3>What it says</h3>
      {data.erased && <p class="notice warn">Erased. Its header and hash remain, so the chain holds.</p>}
      {data.erasure !== null && <Erasure erasure={data.erasure} position={event.position} />}
      {event.about !== null && data.erasure === null && <p class="event-about-text"><About event={event} /></p>}
      {event.kind === "recall_answered" && typeof data.payload?.["receipt_id"] === "string" && (
        <p><a href={addressOf("recall", { receipt: String(data.payload["receipt_id"]) })}>Ask it again</a> and see what moved since.</p>
      )}
      {data.facts.length > 0 && (
        <ol class={data.facts.length > 1 ? "event-facts ranked" : "event-facts"}>
          {data.facts.slice(0, all ? undefined : FACTS).map((fact) => (
            <li class="quoted" key={fact.id}>
              <Name uri={fact.entity} /> <Relation name={fact.relation} /> <bdi>{valueText(fact.value)}</bdi>{" "}
              <a href={addressOf("fact", { id: fact.id })}>fact</a>
            </li>
          ))}
        </ol>
      )}
      {data.facts.length > FACTS && <button type="button" class="quiet" aria-expanded={all} onClick={() => setAll(!all)}>{all ? "fewer" : `all ${plural(data.facts.length, "fact")}`}{event.facts > data.facts.length && ` of ${count(event.facts)}`}</button>}
      {data.payload !== null && data.erasure === null && <Payload payload={data.payload} />}
      {data.payload === null && data.facts.length === 0 && !data.erased && <Empty>Not for your key to see.</Empty>}
      <h3>What it changed</h3>
      {data.erasure === null && <Changed position={event.position} />}
      <Effects readBy={data.read_by} facts={data.facts} />
      <h3>Header</h3>
      <dl class="record">
        <div><dt>recorded</dt><dd><When at={event.recorded_at} exact /></dd></div>
        <div><dt>received here</dt><dd><When at={event.received_at} exact /></dd></div>
        <div><dt>stream</dt><dd><a href={addressOf("log", { stream: partition(event.stream) })}>{visible(partition(event.stream))}</a></dd></div>
        {event.stream_seq !== null && <div><dt>number in stream</dt><dd>{count(event.stream_seq)}</dd></div>}
        <div><dt>came through</dt><dd>{event.peer === null ? "this node" : <a href={addressOf("log", { peer: event.peer })}><NameText uri={event.peer} /></a>}</dd></div>
        <div><dt>actor</dt><dd><a href={addressOf("log", { actor: event.actor })}><NameText uri={event.actor} /></a></dd></div>
        <div class="long"><dt>event id</dt><dd><code>{event.event_id}</code></dd></div>
        {event.causation_id !== null && <div class="long"><dt>caused by the event</dt><dd><code>{event.causation_id}</code></dd></div>}
        <div class="long"><dt>correlation</dt><dd><code>{data.correlation_id}</code></dd></div>
        <div class="long"><dt>origin</dt><dd><code>{visible(event.origin)}</code></dd></div>
        {chain !== null && <Hashes chain={chain} />}
      </dl>
    </aside>
  );
};

/** A payload as names and values; what is nested, as JSON. Facts stand above it. */
const Payload = ({ payload }: { payload: Record<string, unknown> }): JSX.Element => {
  const plain = Object.entries(payload).filter(([name, value]) => name !== "kind" && value !== null && typeof value !== "object");
  const nested = Object.entries(payload).filter(([, value]) => value !== null && typeof value === "object");
  return (
    <>
      <dl class="record">
        {plain.map(([name, value]) => (
          <div key={name} class={String(value).length > 24 ? "long" : ""}>
            <dt>{visible(name).replaceAll("_", " ")}</dt>
            <dd>{name.endsWith("_us") && typeof value === "number" ? <When at={new Date(value / 1000).toISOString()} exact /> : <bdi>{visible(String(value)).slice(0, 2000)}</bdi>}</dd>
          </div>
        ))}
      </dl>
      {nested.length > 0 && (
        <details class="raw">
          <summary>{nested.map(([name]) => visible(name).replaceAll("_", " ")).join(", ")}</summary>
          <pre class="json" tabIndex={0}>{visibleLines(JSON.stringify(Object.fromEntries(nested), null, 2))}</pre>
        </details>
      )}
    </>
  );
};

const visibleLines = (text: string): string => text.slice(0, 100_000).split("\n").map(visible).join("\n");

type Links = NonNullable<LogEventAnswer["chain"]>;

const Hashes = ({ chain }: { chain: Links }): JSX.Element => (
  <>
    <div class="long"><dt>hash</dt><dd><code>{chain.hash}</code></dd></div>
    <div class="long"><dt>hash before it</dt><dd><code>{chain.prev_hash}</code></dd></div>
    <div class="long"><dt>hash of the payload</dt><dd><code>{chain.payload_hash}</code></dd></div>
  </>
);

/** The event between its neighbours of the same stream, with the seals that hold them together. */
const Chain = ({ chain, event }: { chain: Links; event: LogEvent }): JSX.Element => (
  <nav class={chain.verified ? "chain" : "chain broken"} aria-label="Neighbours in the hash chain">
    {chain.previous === null ? <span class="muted">{event.stream_seq === 1 ? "begins its stream" : "not here"}</span>
      : <a href={addressOf("log", keptParams({ event: String(chain.previous) }))}>← {count(chain.previous)}</a>}
    <span class={chain.verified ? "tag good" : "tag bad"}>{chain.verified ? "hashes verified" : visible(chain.fault ?? "")}</span>
    {chain.next === null ? <span class="muted">newest of its stream</span>
      : <a href={addressOf("log", keptParams({ event: String(chain.next) }))}>{count(chain.next)} →</a>}
  </nav>
);

const STEPS = 12;

/** From the first cause over the event to all that followed: what shares one correlation. */
const Path = ({ data: { event, causes, consequences, related } }: { data: LogEventAnswer }): JSX.Element => {
  const [all, setAll] = useState(false);
  const own = new Set([event.position, ...causes.map(({ position }) => position)]);
  const led = new Set(consequences.map(({ position }) => position));
  const steps = [...causes, event, ...consequences, ...related].sort((a, b) => a.position - b.position);
  const shown = all ? steps : steps.filter((each, place) => place < STEPS || own.has(each.position));
  return (
    <>
      <h3>What belongs together <span class="muted">{plural(steps.length, "event")}</span></h3>
      <ol class="path" aria-label="Causes and consequences">
        {shown.map((each) => (
          <li key={each.position} aria-current={each === event ? "true" : undefined} class={own.has(each.position) || led.has(each.position) ? "" : "beside"}>
            <Step event={each} current={each === event} />{" "}
            {each === steps[0] && <span class="tag" title="The first cause: its id names the correlation of all these events">correlation</span>}
            {each !== steps[0] && each !== event && <span class="muted">{own.has(each.position) ? "led to this" : led.has(each.position) ? "follows from this" : "has the same cause"}</span>}
          </li>
        ))}
      </ol>
      {steps.length > STEPS && <button type="button" class="quiet" aria-expanded={all} onClick={() => setAll(!all)}>{all ? "fewer" : `all ${plural(steps.length, "event")}`}</button>}
    </>
  );
};

const Step = ({ event, current }: { event: LogEvent; current: boolean }): JSX.Element => (
  <>
    {current ? <><strong>{kindText(event.kind)}</strong> {count(event.position)}</>
      : <a href={addressOf("log", keptParams({ event: String(event.position) }))}>{kindText(event.kind)} {count(event.position)}</a>}{" "}
    <span class="muted"><About event={event} /></span>
  </>
);

/** The difference between the memory before the event and after it. */
const Changed = ({ position }: { position: number }): JSX.Element => {
  const ask: Ask | null = position < 2 ? null : {
    path: "/v1/time-travel/diff", query: { from: `position:${position - 1}`, to: `position:${position}`, limit: 20 },
  };
  const { data, fault } = useAnswer<Difference>(ask);
  if (fault !== null) return <Fault fault={fault} />;
  if (data === null) return <Empty>{position < 2 ? "The first event of the log." : "…"}</Empty>;
  const total = CHANGES.reduce((sum, change) => sum + (data.counts[change] ?? 0), 0);
  if (total === 0) return <Empty>No fact came, ended or changed by it.</Empty>;
  return (
    <ul class="changes">
      {CHANGES.flatMap((change) => (data[change] ?? []).map((fact) => (
        <li key={`${change} ${fact.id}`} class={`change-${change}`}>
          <span class="change-name">{SAID[change]}</span> <a class="plain" href={addressOf("fact", { id: fact.id })}><NameText uri={fact.entity} /> <Relation name={fact.relation} /> <bdi>{valueText(fact.value)}</bdi></a>
        </li>
      )))}
      {total > 20 && <li class="muted">{plural(total, "change")} in all</li>}
    </ul>
  );
};
