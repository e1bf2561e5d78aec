// Two moments compared: what came, what ended, what changed; and who knew it when.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useAnswer } from "../net/answer";
import type { Ask } from "../net/send";
import type { Fact, Moment } from "../net/types";
import { Empty, Fault, Section, View } from "../parts/frame";
import { Bar, Name, NameText, Relation, Value, When } from "../parts/names";
import { ScopeChoice } from "../parts/scope";
import { count, dayText, plural } from "../parts/text";
import { addressOf, amend, at, param, scope } from "../state/place";
import { may } from "../state/session";
import { head, instantAt, looking, positionAt, span } from "../state/moments";

const LIMIT = 300;
const FEW = 20;
const CHANGES = ["added", "retracted", "resolved", "decayed"] as const;

interface Difference {
  readonly from: Moment;
  readonly to: Moment;
  readonly counts: Record<string, number>;
  readonly added: readonly Fact[];
  readonly retracted: readonly Fact[];
  readonly resolved: readonly Fact[];
  readonly decayed: readonly Fact[];
  readonly erased?: readonly { fact_id: string; position: number }[];
}

/** Without a moment to begin from: a tenth of the log earlier, by its events where few fell in that time. */
const earlier = (): string => {
  const whole = span.value;
  if (whole === null) return "";
  const { ms, position } = looking.value;
  const before = new Date(ms - (whole.endMs - whole.beginMs) / 10);
  return before.getTime() > whole.beginMs && position - positionAt(before.getTime()) >= FEW ? `${before.toISOString().slice(0, 10)}T00:00:00Z` : `position:${Math.max(1, Math.round(position * 0.9))}`;
};

export const TimeView = (): JSX.Element => {
  const from = param("since") || earlier();
  const entity = param("entity");
  const ask: Ask | null = from === "" || head.value === 0 ? null : {
    path: "/v1/time-travel/diff",
    query: { from, to: at.value, scope: scope.value, entity, relation: param("relation"), limit: LIMIT },
  };
  const { data, fault, waiting } = useAnswer<Difference>(ask);
  return (
    <View title="Time" asks={[ask]} actions={<ScopeChoice />}
      lead={data === null ? "What changed between two moments" : <>What changed from <When at={data.from.instant} /> to {looking.value.now ? "now" : <When at={data.to.instant} />}, {plural(data.to.position - data.from.position, "event")}</>}>
      <form class="form-line" aria-label="Moments" onSubmit={(event) => {
        event.preventDefault();
        const given = new FormData(event.currentTarget);
        amend({ since: moment(String(given.get("since"))), at: moment(String(given.get("until"))), entity: String(given.get("entity")).trim() });
      }}>
        <label>From <input name="since" key={`since ${from}`} defaultValue={shortMoment(from)} size={24} spellcheck={false} placeholder="2024-01-31 or position:1" /></label>
        <label>to <input name="until" key={`until ${at.value}`} defaultValue={shortMoment(at.value)} size={24} spellcheck={false} placeholder="now, the slider's moment" /></label>
        <label>Entity <input name="entity" key={`entity ${entity}`} defaultValue={entity} size={28} spellcheck={false} placeholder="any" /></label>
        <button class="primary">Compare</button>
        <span class="choices">
          {steps().map(([label, since]) => <button type="button" key={label} onClick={() => amend({ since })}>{label}</button>)}
        </span>
      </form>
      <Fault fault={fault} />
      {data !== null && <Found data={data} waiting={waiting} />}
    </View>
  );
};

const moment = (text: string): string => (/^\d{4}-\d\d-\d\d$/.test(text.trim()) ? `${text.trim()}T00:00:00Z` : text.trim());

/** Midnight as its day. */
const shortMoment = (text: string): string => text.replace(/T00:00:00(\.0+)?Z$/, "");

const steps = (): [string, string][] => {
  const { ms, position } = looking.value;
  const back = (days: number): string => new Date(ms - days * 86_400_000).toISOString();
  return [["the last day", back(1)], ["the last month", back(30)], ["the last year", back(365.25)], ["the last 100 events", `position:${Math.max(1, position - 100)}`]];
};

/** A value that held at the first moment, and one that holds at the second in its place. */
interface Change {
  readonly before: Fact;
  readonly after: Fact;
}

const grouped = (facts: readonly Fact[]): Map<string, Fact[]> => {
  const groups = new Map<string, Fact[]>();
  for (const fact of facts) {
    const key = `${fact.entity}\n${fact.relation}\n${fact.scope}`;
    groups.set(key, [...(groups.get(key) ?? []), fact]);
  }
  return groups;
};

const text = (fact: Fact): string => String(fact.value.v);

/** A source's newest value takes the place of its earlier one; another source's only where nothing else ended or came.
 * What came and ended between both moments is no part of a change, nor is a value that was stated again. */
const changes = (added: readonly Fact[], ended: readonly Fact[]): Change[] => {
  const passing = new Set(added.map((fact) => fact.id));
  const over = new Set(ended.map((fact) => fact.id));
  const gone = grouped(ended.filter((fact) => !passing.has(fact.id)));
  const come = grouped(added.filter((fact) => !over.has(fact.id)));
  return [...gone].flatMap(([key, befores]) => {
    const known = new Set(befores.map(text));
    let afters = (come.get(key) ?? []).filter((fact) => !known.has(text(fact)));
    const alone = befores.length === 1 && afters.length === 1;
    return befores.flatMap((before) => {
      const after = alone ? afters[0] : afters.findLast((fact) => fact.source === before.source);
      afters = afters.filter((fact) => fact !== after);
      return after === undefined ? [] : [{ before, after }];
    });
  });
};

const paired = (data: Difference): { changed: Change[]; came: Fact[]; ended: Fact[] } => {
  const ended = [...data.retracted, ...data.resolved];
  const changed = changes(data.added, ended);
  const shown = new Set(changed.flatMap(({ before, after }) => [before.id, after.id]));
  return { changed, came: data.added.filter((fact) => !shown.has(fact.id)), ended: ended.filter((fact) => !shown.has(fact.id)) };
};

const Found = ({ data, waiting }: { data: Difference; waiting: boolean }): JSX.Element => {
  const { changed, came, ended } = paired(data);
  const cut = CHANGES.some((change) => (data.counts[change] ?? 0) > LIMIT);
  const most = Math.max(1, ...CHANGES.map((change) => data.counts[change] ?? 0));
  return (
    <div class={waiting ? "columns waiting" : "columns"} aria-busy={waiting}>
      <dl class="figures">
        {([["came", "added"], ["ended", "retracted"], ["set aside", "resolved"], ["fell in confidence", "decayed"]] as const).map(([label, change]) => (
          <div key={change}><dt>{label}</dt><dd>{count(data.counts[change] ?? 0)}</dd>
            <svg class={`meter meter-${change}`} viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"><rect width={(100 * (data.counts[change] ?? 0)) / most} height="4" /></svg></div>
        ))}
        {(data.erased?.length ?? 0) > 0 && <div><dt>erased</dt><dd>{count(data.erased?.length ?? 0)}</dd></div>}
      </dl>
      {cut && <p class="muted">The first {LIMIT} of each kind are listed; name an entity to see all of its changes.</p>}
      <Section title={`Changed (${count(changed.length)}${cut ? " of those listed" : ""})`}>
        {changed.length === 0 && <Empty>No value took another one's place.</Empty>}
        <ol class="diff">
          {changed.slice(0, 100).map(({ before, after }) => (
            <li key={after.id}>
              <div class="diff-what"><Name uri={after.entity} /> <Relation name={after.relation} /></div>
              <div class="diff-before"><Value value={before.value} /> <span class="muted">says <NameText uri={before.source} /></span></div>
              <div class="diff-after"><Value value={after.value} /> <span class="muted"><a href={addressOf("fact", { id: after.id })}><When at={after.timestamp} /></a>, says <NameText uri={after.source} /></span></div>
            </li>
          ))}
        </ol>
      </Section>
      <div class="halves">
        <Listed title="Came" facts={came} />
        <Listed title="Ended" facts={ended} />
        {data.decayed.length > 0 && (
          <Section title="Fell in confidence">
            <ol class="facts">{data.decayed.slice(0, 60).map((fact) => (
              <li key={fact.id} class="fact"><div class="fact-says"><Name uri={fact.entity} /> <Relation name={fact.relation} /> <Value value={fact.value} /></div>
                <div class="fact-foot"><Bar part={fact.confidence_before ?? null} label="before" /> → <Bar part={fact.confidence_after ?? null} label="after" /></div></li>
            ))}</ol>
          </Section>
        )}
      </div>
      <Knew />
    </div>
  );
};

const Listed = ({ title, facts }: { title: string; facts: readonly Fact[] }): JSX.Element => {
  const [all, setAll] = useState(false);
  const shown = all ? facts : facts.slice(0, 30);
  return (
    <Section title={`${title} (${count(facts.length)})`}>
      {facts.length === 0 && <Empty>Nothing.</Empty>}
      <ol class="facts">
        {shown.map((fact) => (
          <li key={fact.id} class="fact">
            <div class="fact-says"><Name uri={fact.entity} /> <Relation name={fact.relation} /> <Value value={fact.value} /></div>
            <div class="fact-foot"><a href={addressOf("fact", { id: fact.id })}><When at={fact.timestamp} /></a> <span class="source">says <NameText uri={fact.source} /></span>
              {fact.retracted_at_position !== undefined && <a href={addressOf("log", { event: String(fact.retracted_at_position) })}>ended with event {count(fact.retracted_at_position)}, {dayText(new Date(instantAt(fact.retracted_at_position)).toISOString())}</a>}</div>
          </li>
        ))}
      </ol>
      {facts.length > 30 && <button type="button" class="quiet" aria-expanded={all} onClick={() => setAll(!all)}>{all ? "fewer" : `all ${count(facts.length)}`}</button>}
    </Section>
  );
};

interface Told {
  readonly rows: readonly (readonly unknown[])[];
}

/** Who was told or brought what about an entity, and when first. */
const Knew = (): JSX.Element => {
  const entity = param("entity");
  const quoted = `'${entity.replaceAll("'", "''")}'`;
  const allowed = may("audit.read");
  const ask: Ask | null = entity === "" || !allowed ? null : {
    method: "POST", path: "/v1/time-travel/sql",
    body: {
      sql: `SELECT who, how, min(seen) AS first, count(*) AS times FROM (
  SELECT source AS who, 'said it' AS how, received_at AS seen FROM events WHERE kind = 'fact_asserted' AND entity = ${quoted}
  UNION ALL SELECT r.actor, 'was told', r.received_at FROM recalls r JOIN facts f USING (fact_id) WHERE f.entity = ${quoted}
) GROUP BY who, how ORDER BY first LIMIT 50`,
      ...(at.value === "" ? {} : { as_of: at.value }),
    },
  };
  const { data, fault } = useAnswer<Told>(ask);
  return (
    <Section title="Who knew this when">
      <Fault fault={fault} />
      {entity === "" && <Empty>Name an entity above to see who said something about it and who was told, and when first.</Empty>}
      {entity !== "" && !allowed && <Empty>Who was told what is for keys with audit.read.</Empty>}
      {data !== null && data.rows.length === 0 && <Empty>No source or reader is recorded at this moment.</Empty>}
      {data !== null && data.rows.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Who knew this when">
          <table class="table">
            <thead><tr><th scope="col">First</th><th scope="col">Who</th><th scope="col">How</th><th scope="col" class="number">Times</th></tr></thead>
            <tbody>{data.rows.map(([who, how, first, times], place) => (
              <tr key={place}><td><When at={`${String(first)}Z`} exact /></td><td><NameText uri={String(who)} /></td><td>{String(how)}</td><td class="number">{String(times)}</td></tr>
            ))}</tbody>
          </table>
        </div>
      )}
    </Section>
  );
};
