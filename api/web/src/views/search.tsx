// Search as you type over names, aliases and values; without a question, what there is to see.
import type { JSX } from "preact";
import { useAnswer, usePages, type Pages } from "../net/answer";
import type { Ask } from "../net/send";
import type { ConflictPage, Fact, FactPage, Found } from "../net/types";
import { Empty, Fault, Section, View } from "../parts/frame";
import { Bar, Marks, Name, NameText, Relation, Value, When, valueText } from "../parts/names";
import { Rows } from "../parts/rows";
import { count, plural, visible } from "../parts/text";
import { addressOf, amend, momentQuery, param, scope } from "../state/place";
import { head, looking, span } from "../state/moments";
import { dayText } from "../parts/text";
import { ScopeChoice } from "../parts/scope";
import { StartHere } from "./start";

const FOUND = 12;
/** As many as the node gives at once. */
const FOUND_MAX = 100;
const PAGE = 100;
const OPEN = 10;
export const FACT_ROW = 60;

export const SearchView = (): JSX.Element => (param("q") === "" ? <Overview /> : <Results text={param("q")} />);

const Results = ({ text }: { text: string }): JSX.Element => {
  const limit = param("all") === "" ? FOUND : FOUND_MAX;
  const ask: Ask = { path: "/v1/search", query: { q: text, scope: scope.value, limit, ...momentQuery.value } };
  const { data, fault, waiting } = useAnswer<Found>(ask);
  return (
    <View title={<>Search: <bdi>{visible(text).slice(0, 80)}</bdi></>} asks={[ask]} actions={<ScopeChoice />}
      lead={data === null ? "" : `${found(data.entities.length, limit, "entity", "entities")}, ${found(data.facts.length, limit, "fact", "facts")}`}>
      <Fault fault={fault} />
      <div class={waiting ? "columns waiting" : "columns"} aria-busy={waiting}>
        {data !== null && data.entities.length === 0 && data.facts.length === 0 && (
          <Empty>Nothing here is called or says “{visible(text).slice(0, 80)}”. <a href={addressOf("recall", { q: text })}>Ask it as a question</a> instead: a recall compares meanings too.</Empty>
        )}
        {data !== null && data.entities.length > 0 && (
          <Section title="Entities">
            <ul class="cards">
              {data.entities.map((each) => (
                <li key={each.entity}>
                  <a class="card" href={addressOf("entity", { name: each.entity })}>
                    <span class="card-name"><NameText uri={each.entity} /></span>
                    {each.label !== null && <bdi class="card-text">{visible(each.label).slice(0, 120)}</bdi>}
                    {each.alias !== null && <span class="card-text">also called <bdi>{visible(each.alias).slice(0, 120)}</bdi></span>}
                    <span class="card-foot">{plural(each.facts, "fact")}</span>
                  </a>
                </li>
              ))}
            </ul>
          </Section>
        )}
        {data !== null && data.facts.length > 0 && (
          <Section title="Facts" aside={<a href={addressOf("recall", { q: text })}>ask as a question</a>}>
            <ol class="facts">{data.facts.map((fact) => <li key={fact.id}><FactRow fact={fact} /></li>)}</ol>
          </Section>
        )}
        {data !== null && limit === FOUND && Math.max(data.entities.length, data.facts.length) === FOUND && (
          <p><button type="button" onClick={() => amend({ all: "1" })}>Show up to {FOUND_MAX} of each</button></p>
        )}
      </div>
    </View>
  );
};

/** How many came; of a full list there may be more. */
const found = (number: number, limit: number, one: string, many: string): string =>
  number < limit ? plural(number, one, many) : `the best ${count(number)} ${many}`;

/** A fact as one line of a list. */
export const FactRow = ({ fact, note }: { fact: Fact; note?: JSX.Element | string }): JSX.Element => (
  <div class="fact">
    <div class="fact-says" title={valueText(fact.value)}>
      <Name uri={fact.entity} /> <a class="plain" href={addressOf("search", { relation: fact.relation })} title="Every fact of this relation"><Relation name={fact.relation} /></a> <Value value={fact.value} /> <Marks fact={fact} />
    </div>
    <div class="fact-foot">
      <Bar part={fact.effective_confidence} label="confidence" />
      <a href={addressOf("fact", { id: fact.id })} title="Where it comes from and what became of it"><When at={fact.timestamp} /></a>
      <span class="source">says <a class="plain" href={addressOf("search", { source: fact.source })} title="Every fact of this source"><NameText uri={fact.source} /></a></span>
      <span class="scope" title="The scope: who may read it">{fact.scope}</span>
      {note}
    </div>
  </div>
);

export const factPages = (ask: Ask | null): Pages<Fact> =>
  usePages<FactPage, Fact>(ask, (page, asked) => ({
    rows: page.facts,
    total: page.total,
    next: page.cursor === null ? null : { ...asked, query: { ...asked.query, cursor: page.cursor } },
  }));

const Overview = (): JSX.Element => {
  const ask: Ask = {
    path: "/v1/facts",
    query: { scope: scope.value, include_contradicted: true, limit: PAGE, relation: param("relation"), source: param("source"), ...momentQuery.value },
  };
  const facts = factPages(ask);
  const conflictsAsk: Ask = { path: "/v1/conflicts", query: { status: "unresolved", limit: OPEN, ...momentQuery.value } };
  const conflicts = useAnswer<ConflictPage>(conflictsAsk);
  if (facts.total === 0 && looking.value.now && scope.value === "" && !param("relation") && !param("source")) return <StartHere />;
  const whole = span.value;
  return (
    <View title={looking.value.now ? "What is known" : "What was known"} asks={[ask, conflictsAsk]} actions={<ScopeChoice />}
      lead={facts.total === null ? "" : `${plural(facts.total, "fact")} you may read, newest first`}>
      <Fault fault={facts.fault} />
      <dl class="figures">
        <div><dt>facts</dt><dd>{facts.total === null ? "…" : count(facts.total)}</dd></div>
        <div><dt>events in the log</dt><dd>{count(looking.value.now ? head.value : looking.value.position)}</dd></div>
        <div><dt>the log begins</dt><dd>{whole === null ? "…" : dayText(new Date(whole.beginMs).toISOString())}</dd></div>
        <div><dt>open conflicts</dt><dd><a href={addressOf("review")}>{conflicts.data === null ? "…" : conflicts.data.cursor === null ? count(conflicts.data.conflicts.length) : `${OPEN}+`}</a></dd></div>
      </dl>
      {(param("relation") || param("source")) && (
        <p class="filters">
          {param("relation") && <a class="tag" href={addressOf("search", { source: param("source") })} title="Show every relation">relation <Relation name={param("relation")} /> ×</a>}
          {param("source") && <a class="tag" href={addressOf("search", { relation: param("relation") })} title="Show every source">source <NameText uri={param("source")} /> ×</a>}
        </p>
      )}
      {facts.data !== null && (
        <Rows rows={facts.data} label="Facts, newest first" height={FACT_ROW} total={facts.total} more={facts.more}
          keyOf={(fact) => fact.id} draw={(fact) => <FactRow fact={fact} />} />
      )}
      {facts.data?.length === 0 && <Empty>Nothing was known at this moment. Move the slider to the right.</Empty>}
    </View>
  );
};
