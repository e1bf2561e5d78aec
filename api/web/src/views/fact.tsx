// One fact: what it says, where it comes from, what became of it, and who was told.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useAnswer } from "../net/answer";
import { segment, type Ask } from "../net/send";
import type { Fact, LifeEvent } from "../net/types";
import { Empty, Fault, Section, View } from "../parts/frame";
import { Bar, Marks, Name, NameText, Relation, Value, When } from "../parts/names";
import { kindText, visible } from "../parts/text";
import { addressOf, at, momentQuery, param } from "../state/place";
import { may } from "../state/session";
import { Again, Retract, type Meanwhile } from "./review/actions";
import { HoldFact } from "./review/erasures";
import { Judge, PutAside } from "./review/held";

interface Belief {
  readonly position: number;
  readonly at: string;
  readonly confidence: number;
  readonly cause: string;
}

interface FactLife {
  readonly fact: Fact | null;
  readonly erased?: { fact_id: string; erasure_id: string };
  readonly events: readonly LifeEvent[];
  readonly belief: readonly Belief[];
  readonly truncated: boolean;
}

interface Provenance {
  readonly nodes: readonly { hash: string; exists: boolean; depth: number; fact_id?: string; entity?: string; relation?: string; source?: string }[];
  readonly truncated: boolean;
}

/** An act of the reader that the node has not answered yet. */
interface Expected {
  readonly kind: string;
  readonly ends: boolean;
  readonly reason: string;
}

const CHANGES_MAX = "1000";
const TOLD_SHOWN = "50";

export const FactView = (): JSX.Element => {
  const id = param("id");
  const lifeOnly = (only: string, limit: string): Ask => ({ path: `/v1/time-travel/facts/${segment(id)}`, query: { only, limit, ...momentQuery.value } });
  const lifeAsk = lifeOnly("changes", CHANGES_MAX);
  const toldAsk = lifeOnly("recalls", TOLD_SHOWN);
  const provenanceAsk: Ask = { path: `/v1/facts/${segment(id)}/provenance`, query: { ...momentQuery.value } };
  const life = useAnswer<FactLife>(id ? lifeAsk : null);
  const tellings = useAnswer<FactLife>(id ? toldAsk : null);
  const provenance = useAnswer<Provenance>(id ? provenanceAsk : null);
  const fact = life.data?.fact ?? null;
  const changed = life.data?.events ?? [];
  const told = tellings.data?.events ?? [];
  const ended = changed.some((event) => event.kind === "fact_retracted");
  const [expected, setExpected] = useState<Expected | null>(null);
  useEffect(() => setExpected(null), [life.data]);
  const soon = (kind: string, ends = false): Meanwhile => (reason) => {
    setExpected({ kind, ends, reason });
    return (agreed) => { if (!agreed) setExpected(null); };
  };
  return (
    <View title="A fact" asks={[lifeAsk, toldAsk, provenanceAsk]} lead={<code class="address">{visible(id)}</code>}
      actions={fact !== null && may("write") && at.value === "" ? (
        ended ? fact.quarantine_status === null && <Again fact={{ ...fact, confidence: life.data?.belief[0]?.confidence ?? fact.confidence }} meanwhile={soon("stated again")} /> : fact.quarantine_status === "pending" ? <Judge fact={fact} meanwhile={soon("quarantine reviewed", true)} /> : <>{fact.garden_id === null && <PutAside fact={fact} meanwhile={soon("put in quarantine", true)} />}{may("admin") && <HoldFact fact={fact} meanwhile={soon("legal hold set")} />}<Retract fact={fact} meanwhile={soon("fact retracted", true)} /></>
      ) : undefined}>
      <Fault fault={life.fault} />
      {life.data?.erased && <p class="notice warn">This fact was erased. What remains are the events that name it.</p>}
      {fact !== null && (
        <>
          <div class="statement">
            <p class="statement-says"><Name uri={fact.entity} /> <Relation name={fact.relation} /> <Value value={fact.value} /></p>
            <p class="fact-foot"><Marks fact={fact} /> {(ended || expected?.ends) && <span class="tag">ended</span>}</p>
            <dl class="record">
              <div><dt>says</dt><dd><a href={addressOf("search", { source: fact.source })}><NameText uri={fact.source} /></a></dd></div>
              <div><dt>recorded</dt><dd><When at={fact.timestamp} exact /></dd></div>
              <div><dt>event</dt><dd><a href={addressOf("log", { event: String(fact.position) })}>{fact.position}</a></dd></div>
              <div><dt>scope</dt><dd>{fact.scope}</dd></div>
              <div><dt>confidence</dt><dd><Bar part={fact.confidence} label="confidence" /></dd></div>
              <div><dt>trust in source</dt><dd><Bar part={fact.source_trust} label="trust" tone="trust" /></dd></div>
              <div><dt>counts as</dt><dd><Bar part={fact.effective_confidence} label="confidence times trust" /></dd></div>
              {fact.valid_from !== null && <div><dt>holds from</dt><dd><When at={fact.valid_from} exact /></dd></div>}
              {fact.valid_until !== null && <div><dt>holds until</dt><dd><When at={fact.valid_until} exact /></dd></div>}
              <div class="long"><dt>content id</dt><dd><code>{fact.cid}</code></dd></div>
            </dl>
          </div>
          <div class="halves">
            <Section title="What became of it">
              <ol class="life">
                {changed.map((event) => (
                  <li key={event.event_id} class={`life-${event.kind}`}>
                    <a href={addressOf("log", { event: String(event.position) })}><When at={event.received_at} exact /></a> <strong>{kindText(event.kind)}</strong>{" "}
                    <span class="muted">by <NameText uri={event.actor} />{event.peer !== null && <> through <NameText uri={event.peer} /></>}</span>
                    {event.reason !== null && <span class="reason"> {visible(event.reason)}</span>}
                    {event.note !== null && <span class="reason"> {visible(event.note)}</span>}
                    {event.winner_id !== null && <span class="reason">{event.winner_id === fact.id ? " this one was kept" : " the other one was kept"}</span>}
                  </li>
                ))}
                {expected !== null && (
                  <li aria-busy="true"><span class="muted">now</span> <strong>{expected.kind}</strong>{expected.reason !== "" && <span class="reason"> {visible(expected.reason)}</span>}</li>
                )}
              </ol>
              <Course belief={life.data?.belief ?? []} />
            </Section>
            <Section title="Where it comes from">
              <Fault fault={provenance.fault} />
              {provenance.data?.nodes.length === 1 && <Empty>Stated by its source; derived from nothing here.</Empty>}
              <ol class="ancestry">
                {(provenance.data?.nodes ?? []).filter((node) => node.depth > 0).map((node) => (
                  <li key={node.hash} class={`depth-${Math.min(node.depth, 4)}`}>
                    {node.exists && node.fact_id !== undefined && node.entity !== undefined && node.relation !== undefined
                      ? <a href={addressOf("fact", { id: node.fact_id })}><NameText uri={node.entity} /> <Relation name={node.relation} /></a>
                      : <span class="muted">not here: <code>{node.hash.slice(0, 23)}…</code></span>}
                  </li>
                ))}
              </ol>
            </Section>
            <Section title="Who was told">
              <Fault fault={tellings.fault} />
              {tellings.data !== null && told.length === 0 && <Empty>No recall is recorded that you may know of.</Empty>}
              <ol class="life">
                {told.map((event) => (
                  <li key={event.event_id}><a href={addressOf("log", { event: String(event.position) })}><When at={event.received_at} exact /></a> <NameText uri={event.actor} /></li>
                ))}
              </ol>
              {tellings.data?.truncated && <p class="muted">the first {TOLD_SHOWN} times</p>}
            </Section>
          </div>
        </>
      )}
    </View>
  );
};

/** How confidence went, drawn as steps, where it changed at all. */
const Course = ({ belief }: { belief: readonly Belief[] }): JSX.Element | null => {
  if (belief.length < 2) return null;
  const times = belief.map(({ at }) => new Date(at).getTime());
  const [begin = 0, end = 1] = [times[0], Math.max(times.at(-1) ?? 0, (times[0] ?? 0) + 1)];
  const x = (ms: number): number => (300 * (ms - begin)) / (end - begin);
  const path = belief.map(({ confidence }, n) => {
    const y = 58 - 56 * confidence;
    return n === 0 ? `M0 ${y}` : `H${x(times[n] ?? 0)} V${y}`;
  });
  return (
    <figure class="course">
      <svg viewBox="0 0 300 60" preserveAspectRatio="none" role="img" aria-label="Confidence over time"><path d={path.join(" ")} /></svg>
      <figcaption>
        {belief.map((point) => <span key={point.position}><When at={point.at} />: {point.confidence.toFixed(2)}</span>)}
      </figcaption>
    </figure>
  );
};
