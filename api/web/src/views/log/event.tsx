// One event: header, payload, chain, what led to it, and what it changed.
import type { JSX } from "preact";
import { useAnswer } from "../../net/answer";
import type { Ask } from "../../net/send";
import type { Fact, Moment } from "../../net/types";
import { Empty, Fault } from "../../parts/frame";
import { Name, NameText, Relation, When, valueText } from "../../parts/names";
import { count, kindText, plural, visible } from "../../parts/text";
import { addressOf } from "../../state/place";
import { keptParams } from "./view";
import { partition, type LogEvent, type LogEventAnswer } from "./types";

interface Difference {
  readonly from: Moment;
  readonly counts: Record<string, number>;
  readonly added?: readonly Fact[];
  readonly retracted?: readonly Fact[];
  readonly decayed?: readonly Fact[];
  readonly resolved?: readonly Fact[];
}

const CHANGES = ["added", "retracted", "resolved", "decayed"] as const;
const SAID: Record<(typeof CHANGES)[number], string> = { added: "now known", retracted: "no longer holds", resolved: "set aside", decayed: "fell in confidence" };

export const EventDetail = ({ ask }: { ask: Ask }): JSX.Element => {
  const { data, fault } = useAnswer<LogEventAnswer>(ask);
  if (fault !== null) return <aside class="event-detail"><Fault fault={fault} /></aside>;
  if (data === null) return <aside class="event-detail" aria-busy="true" />;
  const { event, chain } = data;
  return (
    <aside class="event-detail" aria-label={`Event ${event.position}`}>
      <div class="sheet-head">
        <h2>Event {count(event.position)}</h2>
        <a class="tool" href={addressOf("log", keptParams({ event: "" }))}>Close</a>
      </div>
      <p class="event-title"><strong>{kindText(event.kind)}</strong> <span class="muted">version {event.schema_version}, by</span> <NameText uri={event.actor} /></p>
      {chain !== null && <Chain chain={chain} event={event} />}
      <dl class="record">
        <div><dt>recorded</dt><dd><When at={event.recorded_at} exact /></dd></div>
        <div><dt>received here</dt><dd><When at={event.received_at} exact /></dd></div>
        <div><dt>stream</dt><dd><a href={addressOf("log", { stream: partition(event.stream) })}>{visible(partition(event.stream))}</a></dd></div>
        {event.stream_seq !== null && <div><dt>number in stream</dt><dd>{count(event.stream_seq)}</dd></div>}
        <div><dt>came through</dt><dd>{event.peer === null ? "this node" : <a href={addressOf("log", { peer: event.peer })}><NameText uri={event.peer} /></a>}</dd></div>
        <div><dt>actor</dt><dd><a href={addressOf("log", { actor: event.actor })}><NameText uri={event.actor} /></a></dd></div>
        <div class="long"><dt>event id</dt><dd><code>{event.event_id}</code></dd></div>
        <div class="long"><dt>origin</dt><dd><code>{visible(event.origin)}</code></dd></div>
        {chain !== null && <Hashes chain={chain} />}
      </dl>
      {data.causes.length > 0 && (
        <>
          <h3>What led to it</h3>
          <ol class="path">
            {data.causes.map((each) => <Step key={each.position} event={each} />)}
            <li><strong>{kindText(event.kind)}</strong> {count(event.position)}</li>
          </ol>
        </>
      )}
      <h3>Payload</h3>
      {data.erased && <p class="notice warn">Erased. Its header and hash remain, so the chain holds.</p>}
      {data.facts.map((fact) => (
        <p class="quoted" key={fact.id}>
          <Name uri={fact.entity} /> <Relation name={fact.relation} /> <bdi>{valueText(fact.value)}</bdi>{" "}
          <a href={addressOf("fact", { id: fact.id })}>fact</a>
        </p>
      ))}
      {data.payload !== null && <pre class="json" tabIndex={0}>{visibleLines(JSON.stringify(data.payload, null, 2))}</pre>}
      {data.payload === null && data.facts.length === 0 && !data.erased && <Empty>Not for your key to see.</Empty>}
      <h3>What it changed</h3>
      <Changed position={event.position} />
      <p class="muted readers">
        {data.read_by.length === 0 ? "No projection reads this kind." : <>Read by {data.read_by.map((each, place) => (
          <span key={each.projection}>{place > 0 && ", "}<code title={each.tables.length ? `tables: ${each.tables.join(", ")}` : "no tables"}>{each.projection}</code>{!each.applied && " (not yet)"}</span>
        ))}.</>}
      </p>
    </aside>
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

const Step = ({ event }: { event: LogEvent }): JSX.Element => (
  <li>
    <a href={addressOf("log", keptParams({ event: String(event.position) }))}>{kindText(event.kind)} {count(event.position)}</a>{" "}
    <span class="muted"><NameText uri={event.actor} />, <When at={event.received_at} /></span>
  </li>
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
  if (total === 0) return <Empty>No fact that you may read.</Empty>;
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
