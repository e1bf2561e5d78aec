// One entity: what is known of it, grouped by relation, with both sides where sources disagree.
import type { JSX } from "preact";
import { useAnswer } from "../net/answer";
import { segment, type Ask } from "../net/send";
import type { Fact, Neighbours } from "../net/types";
import { Empty, Fault, Section, View } from "../parts/frame";
import { Bar, Marks, Name, NameText, Relation, Value, When } from "../parts/names";
import { count, deceptive, kindText, partsOf, plural, visible } from "../parts/text";
import { addressOf, amend, momentQuery, param, scope } from "../state/place";
import { Rows } from "../parts/rows";
import { ScopeChoice } from "../parts/scope";
import { factPages } from "./search";
import type { LogPage } from "./log/types";

const PAGE = 200;
const LIFE = 50;
const NEAR = 60;
const GROUP = 6;

export const EntityView = (): JSX.Element => {
  const name = param("name");
  const ended = param("ended") !== "";
  const factsAsk: Ask = {
    path: "/v1/facts",
    query: { entity: name, scope: scope.value, include_contradicted: true, include_retracted: ended, include_expired: ended, limit: PAGE, ...momentQuery.value },
  };
  const facts = factPages(name ? factsAsk : null);
  const life: Ask = { path: "/v1/log", query: { entity: name, limit: LIFE, ...momentQuery.value } };
  const cardScope = scope.value || mostCommon(facts.data ?? []);
  const card: Ask | null = cardScope === "" ? null : { path: `/v1/cards/${segment(name)}`, query: { scope: cardScope, ...momentQuery.value } };
  const near: Ask | null = cardScope === "" ? null : { path: "/v1/graph/neighbors", query: { entity: name, scope: cardScope, page_size: NEAR, ...momentQuery.value } };
  const { kind } = partsOf(name);
  const label = facts.data?.find((fact) => /:(name|label|title)$/.test(fact.relation) && typeof fact.value.v === "string");
  return (
    <View title={label ? <bdi>{visible(String(label.value.v)).slice(0, 120)}</bdi> : <NameText uri={name} />} asks={[factsAsk, life, near, card]}
      lead={<><bdi class="address">{visible(name).slice(0, 400)}</bdi>{deceptive(name) && <span class="tag warn">look-alike name</span>}</>}
      actions={<>
        <ScopeChoice />
        <a class="tool" href={addressOf("graph", { from: name })}>Graph</a>
        <a class="tool" href={addressOf("log", { entity: name })}>Log</a>
        <a class="tool" href={addressOf("recall", { entity: name, q: partsOf(name).name.replaceAll("-", " ") })}>Ask</a>
      </>}>
      <Fault fault={facts.fault} />
      <div class={facts.waiting ? "split waiting" : "split"} aria-busy={facts.waiting}>
        <div class="split-main">
          <Section title="Facts" aside={
            <label class="inline"><input type="checkbox" checked={ended} onChange={() => amend({ ended: ended ? "" : "1" })} /> also what has ended</label>
          }>
            {facts.data?.length === 0 && <Empty>Nothing is known of this {kind || "entity"} at this moment{scope.value && ` in the scope ${scope.value}`}.</Empty>}
            <Groups facts={facts.data ?? []} more={facts.more} />
            {facts.more !== null && <button type="button" onClick={facts.more}>More of {plural(facts.total ?? 0, "fact")}</button>}
          </Section>
        </div>
        <div class="split-side">
          {card !== null && <Card ask={card} />}
          {near !== null && <Near ask={near} />}
          <Life ask={life} name={name} />
        </div>
      </div>
    </View>
  );
};

const mostCommon = (facts: readonly Fact[]): string => {
  const counts = new Map<string, number>();
  for (const { scope: each } of facts) counts.set(each, (counts.get(each) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0] ?? "";
};

const groups = (facts: readonly Fact[]): [string, readonly Fact[]][] => {
  const found = new Map<string, Fact[]>();
  for (const fact of facts) {
    const group = found.get(fact.relation);
    if (group) group.push(fact);
    else found.set(fact.relation, [fact]);
  }
  const disputed = (group: readonly Fact[]): number => (group.some((fact) => fact.contradicted) ? 0 : 1);
  return [...found].sort(([a, first], [b, second]) => disputed(first) - disputed(second) || first.length - second.length || a.localeCompare(b));
};

/** A piece of a group that is one row of the list: a hub's facts are many thousands. */
interface Part {
  readonly key: string;
  readonly relation: string;
  /** The number of facts in the group, at its first part. */
  readonly size: number | null;
  readonly facts: readonly Fact[];
  readonly kind: "stated" | "dispute" | "toggle";
}

const partsOfGroup = (relation: string, facts: readonly Fact[], open: boolean): Part[] => {
  const disputed = facts.filter((fact) => fact.contradicted);
  const rest = facts.filter((fact) => !fact.contradicted);
  const parts: Omit<Part, "size">[] = [];
  for (const fact of open ? rest : rest.slice(0, GROUP)) parts.push({ key: fact.id, relation, facts: [fact], kind: "stated" });
  for (let n = 0; n < disputed.length; n += GROUP) parts.push({ key: `dispute ${relation} ${n}`, relation, facts: disputed.slice(n, n + GROUP), kind: "dispute" });
  if (rest.length > GROUP) parts.push({ key: `toggle ${relation}`, relation, facts: rest, kind: "toggle" });
  return parts.map((part, n) => ({ ...part, size: n === 0 ? facts.length : null }));
};

const ROW = 74;

const Groups = ({ facts, more }: { facts: readonly Fact[]; more: (() => void) | null }): JSX.Element => {
  const opened = param("groups").split("\n").filter(Boolean);
  const grouped = groups(facts);
  const last = grouped.at(-1)?.[0];
  // Until every page is here, the numbers are of those that are.
  const least = more === null ? "" : "+";
  const disputes = new Map(grouped.map(([relation, group]) => [relation, group.filter((fact) => fact.contradicted).length]));
  const turn = (relation: string): void => amend({ groups: (opened.includes(relation) ? opened.filter((each) => each !== relation) : [...opened, relation]).join("\n") }, true);
  return (
    <Rows rows={grouped.flatMap(([relation, group]) => partsOfGroup(relation, group, opened.includes(relation)))} label="Facts by relation" height={ROW} measured
      // Only where what comes is seen: a folded group shows none of it.
      more={last !== undefined && opened.includes(last) ? more : null} keyOf={({ key }) => key}
      draw={(part) => (
        <div class={part.size === null ? "group" : "group begins"}>
          {part.size !== null && <h3 class="group-name"><a class="plain" href={addressOf("search", { relation: part.relation })} title="Every fact of this relation"><Relation name={part.relation} /></a>{part.size > 1 && <span class="muted"> {count(part.size)}{least}</span>}</h3>}
          <div class="group-facts">
            {part.kind === "stated" && part.facts.map((fact) => <Stated key={fact.id} fact={fact} />)}
            {part.kind === "dispute" && <Dispute facts={part.facts} all={disputes.get(part.relation) ?? 0} least={least} />}
            {part.kind === "toggle" && <button type="button" class="quiet" aria-expanded={opened.includes(part.relation)} onClick={() => turn(part.relation)}>{opened.includes(part.relation) ? "fewer" : `all ${count(part.facts.length)}${least}`}</button>}
          </div>
        </div>
      )} />
  );
};

const Dispute = ({ facts, all, least }: { facts: readonly Fact[]; all: number; least: string }): JSX.Element => (
  <div class={all > 1 ? "dispute" : "dispute settled"}>
    <p class="dispute-head">
      {all > 1
        ? <><span class="tag bad">in conflict</span> {count(all)}{least} values that exclude each other. <a href={addressOf("review")}>Settle it</a></>
        : <><span class="tag">set aside</span> lost against another value. <a href={addressOf("review", { status: "resolved" })}>See the resolution</a></>}
    </p>
    <div class="sides">{facts.map((fact) => <Stated key={fact.id} fact={fact} />)}</div>
  </div>
);

/** What a source says, without the entity and relation, which stand above it. */
export const Stated = ({ fact }: { fact: Fact }): JSX.Element => (
  <div class="stated">
    <div class="stated-value"><Value value={fact.value} scope={fact.scope} /> {fact.confidence === 0 || fact.quarantine_status !== null || fact.sanitizer_warnings.length > 0 ? <Marks fact={{ ...fact, contradicted: false }} /> : null}</div>
    <div class="fact-foot">
      <Bar part={fact.effective_confidence} label="confidence" />
      <a href={addressOf("fact", { id: fact.id })} title="Where it comes from and what became of it"><When at={fact.timestamp} /></a>
      <span class="source"><a class="plain" href={addressOf("search", { source: fact.source })}><NameText uri={fact.source} /></a></span>
      <span class="scope" title="The scope: who may read it">{fact.scope}</span>
      {(fact.valid_from !== null || fact.valid_until !== null) && (
        <span class="muted">holds {fact.valid_from !== null && <>from <When at={fact.valid_from} /></>} {fact.valid_until !== null && <>until <When at={fact.valid_until} /></>}</span>
      )}
      {fact.derived_from.length > 0 && <a href={addressOf("fact", { id: fact.id })}>derived</a>}
    </div>
  </div>
);

interface CardAnswer {
  readonly summary: string;
  readonly refreshed_at: string;
  readonly is_stale: boolean;
  readonly avg_confidence: number;
  readonly fact_hashes: readonly string[];
}

const Card = ({ ask }: { ask: Ask }): JSX.Element | null => {
  const { data, fault } = useAnswer<CardAnswer>(ask);
  if (fault !== null || data === null) return null;
  const lines = data.summary.split("\n").filter((line) => line.startsWith("  ")).map((line) => line.trim());
  return (
    <Section title="Card" aside={data.is_stale ? <span class="tag warn">stale</span> : <span class="muted">of <When at={data.refreshed_at} /></span>}>
      <div class="memory-card">
        <ul>{lines.slice(0, 12).map((line) => <li key={line}><bdi>{visible(line.replace(/ \(conf=[\d.]+\)$/, "").replace(/^[^\s:]*:([^:]+):/, "$1:").replaceAll(/stigmem:\/\/\S*\/([^\s/]+)/g, "$1")).slice(0, 300)}</bdi></li>)}</ul>
        <p class="fact-foot"><Bar part={data.avg_confidence} label="confidence" /> <span class="muted">what a model is given of it: {plural(data.fact_hashes.length, "fact")}</span></p>
      </div>
    </Section>
  );
};

const Near = ({ ask }: { ask: Ask }): JSX.Element => {
  const { data, fault } = useAnswer<Neighbours>(ask);
  return (
    <Section title="Neighbours" aside={data !== null && <span class="muted">{count(data.total_hint)}</span>}>
      <Fault fault={fault} />
      {data?.neighbors.length === 0 && <Empty>None at this moment.</Empty>}
      <ul class="near">
        {data?.neighbors.map((each) => (
          <li key={`${each.entity} ${each.relation}`}><Relation name={each.relation} /> <Name uri={each.entity} /></li>
        ))}
      </ul>
    </Section>
  );
};

/** What stated, ended and settled facts about it, the newest first. */
const Life = ({ ask, name }: { ask: Ask; name: string }): JSX.Element => {
  const { data, fault } = useAnswer<LogPage>(ask);
  return (
    <Section title="Timeline" aside={data !== null && data.next_before !== null ? <a href={addressOf("log", { entity: name })}>all</a> : undefined}>
      <Fault fault={fault} />
      <ol class="life">
        {data?.events.map((event) => (
          <li key={event.position} class={`life-${event.kind}`}>
            <a href={addressOf("log", { event: String(event.position), entity: name })}><When at={event.received_at} /></a> {kindText(event.kind)}{" "}
            {event.relation !== null && event.entity === name && <Relation name={event.relation} />} <span class="muted">by <NameText uri={event.actor} /></span>
          </li>
        ))}
      </ol>
    </Section>
  );
};
