// One answer: the packed text with its tokens, the stages, and the candidates with their scores.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useAnswer } from "../../net/answer";
import type { Ask } from "../../net/send";
import type { Fact } from "../../net/types";
import { Empty, Fault, Section } from "../../parts/frame";
import { Marks, Name, NameText, Relation, Value, When, valueText } from "../../parts/names";
import { count, partsOf, plural, relationText, visible } from "../../parts/text";
import { addressOf } from "../../state/place";
import type { RecallAnswer, Recalled } from "./types";

const CANDIDATES = 60;
/** Always the same colour for the same stage, whatever else there is. */
const STAGES = ["lexical", "semantic", "graph", "fuzzy", "simhash", "summaries"];
const colourOf = (stage: string): number => (STAGES.indexOf(stage) === -1 ? 5 : STAGES.indexOf(stage)) + 1;

interface AnsweredProps {
  readonly ask: Ask;
  readonly other: Ask | null;
  readonly label: string;
}

export const Answered = ({ ask, other, label }: AnsweredProps): JSX.Element => {
  const { data, fault, waiting } = useAnswer<RecallAnswer>(ask);
  const against = useAnswer<RecallAnswer>(other);
  const wide: Ask = { ...ask, body: { ...(ask.body as object), token_budget: 200_000, limit: CANDIDATES, track: false } };
  const [more, setMore] = useState(false);
  const all = useAnswer<RecallAnswer>(more ? wide : null);
  if (fault !== null) return <Fault fault={fault} />;
  if (data === null) return <p class="empty" role="status">…</p>;
  const ranks = against.data === null ? null : new Map(against.data.results.map((each, place) => [each.id, place + 1]));
  const packed = new Set(data.results.map((each) => each.id));
  const shown = more && all.data !== null ? all.data.results : data.results;
  return (
    <div class={waiting ? "columns waiting" : "columns"} aria-busy={waiting}>
      {label && <h2 class="side-label">{label}</h2>}
      {data.hint !== null && <p class="notice">{visible(data.hint.message)}</p>}
      <Section title="What the model gets" aside={<span class="muted">{plural(data.results.length, "fact")} of {count(data.total_scored)} scored, at event {count(data.moment.position)}</span>}>
        <Budget data={data} />
        <Packed data={data} />
      </Section>
      <Section title="Stages">
        <div class="stages">
          {data.stages.map((stage) => (
            <div key={stage.name} class={`stage stage-${colourOf(stage.name)}${stage.status === "completed" ? "" : " off"}`}>
              <strong>{stage.name}</strong> <span class="muted">{stage.status === "completed" ? `${plural(stage.hits, "candidate")} in ${stage.milliseconds.toFixed(1)} ms` : `${stage.status}${stage.detail ? `: ${visible(stage.detail)}` : ""}`}</span>
              {data.weights[stage.name] !== undefined && <span class="muted"> weighs {Number(data.weights[stage.name]?.toPrecision(3))}</span>}
            </div>
          ))}
        </div>
      </Section>
      <Section title="Candidates" aside={<button type="button" class="quiet" aria-pressed={more} onClick={() => setMore(!more)}>{more ? "only what was packed" : `the best ${CANDIDATES}, packed or not`}</button>}>
        <Fault fault={all.fault} />
        {shown.length === 0 && <Empty>Nothing was found that you may read.</Empty>}
        <ol class="candidates">
          {shown.map((each, place) => <Candidate key={each.id} each={each} rank={place + 1} packed={packed.has(each.id)} other={ranks === null ? undefined : ranks.get(each.id) ?? null} best={shown[0]?.score ?? 1} />)}
        </ol>
      </Section>
    </div>
  );
};

/** How the budget was spent, a piece for each fact. */
const Budget = ({ data }: { data: RecallAnswer }): JSX.Element => {
  let at = 0;
  return (
    <div class="budget" title={`${data.tokens_used} of ${data.token_budget} tokens`}>
      <svg viewBox="0 0 1000 14" preserveAspectRatio="none" role="img" aria-label={`${data.tokens_used} of ${data.token_budget} tokens are used`}>
        <rect class="bar-ground" width="1000" height="14" />
        {data.results.map((each, place) => {
          const width = (1000 * each.token_estimate) / data.token_budget;
          const x = at;
          at += width;
          return <rect key={each.id} class={place % 2 ? "piece odd" : "piece"} x={x} width={Math.max(0.8, width)} height="14" />;
        })}
      </svg>
      <span class="muted">{count(data.tokens_used)} of {count(data.token_budget)} tokens{data.truncated && "; not everything fitted"}</span>
    </div>
  );
};

/** A fact as one line of plain text. */
const lineOf = (fact: Fact): string =>
  `${partsOf(fact.entity).name} · ${relationText(fact.relation)}: ${valueText(fact.value)} (${fact.confidence.toFixed(2)}, ${partsOf(fact.source).name}, ${fact.timestamp.slice(0, 10)})`;

const Packed = ({ data }: { data: RecallAnswer }): JSX.Element => {
  const most = Math.max(1, ...data.results.map((each) => each.token_estimate));
  return (
    <div class="packed" tabIndex={0} role="region" aria-label="Packed text">
      {data.memory_card?.markdown && <pre>{visible(data.memory_card.markdown.split("\n").slice(0, 40).join(" ⏎ ")).replaceAll(" ⏎ ", "\n")}</pre>}
      {data.results.map((each) => (
        <div class="packed-line" key={each.id}>
          <svg class="packed-tokens" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="piece" width={(100 * each.token_estimate) / most} height="8" /></svg>
          <span class="packed-count">{each.token_estimate}<span class="unseen"> tokens</span></span>
          <bdi>{lineOf(each.fact)}</bdi>
        </div>
      ))}
    </div>
  );
};

interface CandidateProps {
  readonly each: Recalled;
  readonly rank: number;
  readonly packed: boolean;
  /** Its rank in the other answer; null where it is not there, undefined without another. */
  readonly other: number | null | undefined;
  readonly best: number;
}

const Candidate = ({ each, rank, packed, other, best }: CandidateProps): JSX.Element => {
  const [open, setOpen] = useState(false);
  const { fact } = each;
  return (
    <li class={packed ? "candidate" : "candidate unpacked"}>
      <span class="rank">{rank}</span>
      <div class="candidate-main">
        <div><Name uri={fact.entity} /> <Relation name={fact.relation} /> <Value value={fact.value} /> <Marks fact={fact} />
          {!packed && <span class="tag">not packed</span>}
          {other !== undefined && (other === null ? <span class="tag warn">only here</span> : other !== rank && <span class={`tag ${other > rank ? "good" : "bad"}`}>{other > rank ? "▲" : "▼"} {Math.abs(other - rank)}</span>)}
        </div>
        <ScoreBar each={each} best={best} />
        <div class="fact-foot">
          <span>score {each.score.toFixed(3)}</span>
          <a href={addressOf("fact", { id: fact.id })}><When at={fact.timestamp} /></a>
          <span class="source">says <NameText uri={fact.source} /></span>
          <button type="button" class="quiet" aria-expanded={open} onClick={() => setOpen(!open)}>{open ? "close" : "how?"}</button>
        </div>
        {open && <Explained each={each} />}
      </div>
    </li>
  );
};

/** What each stage gave, stacked; the line shows the score once factors have acted. */
const ScoreBar = ({ each, best }: { each: Recalled; best: number }): JSX.Element | null => {
  const stages = Object.entries(each.explain?.stages ?? {});
  if (stages.length === 0) return null;
  const whole = Math.max(best, ...[stages.reduce((sum, [, { normalised, weight }]) => sum + normalised * weight, 0)]);
  let at = 0;
  return (
    <svg class="score" viewBox="0 0 1000 12" preserveAspectRatio="none" role="img"
      aria-label={`${stages.map(([name, { normalised, weight }]) => `${name} ${(normalised * weight).toFixed(3)}`).join(", ")}; score ${each.score.toFixed(3)}`}>
      <rect class="bar-ground" width="1000" height="12" />
      {stages.map(([name, { normalised, weight }]) => {
        const width = (1000 * normalised * weight) / whole;
        const x = at;
        at += width;
        return <rect key={name} class={`fill-${colourOf(name)}`} x={x} width={width} height="12"><title>{`${name}: ${normalised.toFixed(3)} × ${weight.toFixed(2)}`}</title></rect>;
      })}
      <rect class="score-mark" x={Math.min(996, (1000 * each.score) / whole)} width="4" height="12" />
    </svg>
  );
};

const Explained = ({ each }: { each: Recalled }): JSX.Element => (
  <div class="explained">
    <ul>{each.why.map((line) => <li key={line}><bdi>{visible(line)}</bdi></li>)}</ul>
    <table class="table">
      <thead><tr><th scope="col">Stage</th><th scope="col" class="number">raw</th><th scope="col" class="number">normalised</th><th scope="col" class="number">weight</th><th scope="col" class="number">gives</th></tr></thead>
      <tbody>{Object.entries(each.explain?.stages ?? {}).map(([name, { raw, normalised, weight }]) => (
        <tr key={name}><td><i class={`fill-dot fill-dot-${colourOf(name)}`} />{name}</td><td class="number">{raw.toFixed(3)}</td><td class="number">{normalised.toFixed(3)}</td><td class="number">{weight.toFixed(3)}</td><td class="number">{(normalised * weight).toFixed(3)}</td></tr>
      ))}</tbody>
    </table>
    <dl class="factors">
      {Object.entries(each.explain?.factors ?? {}).map(([name, value]) => <div key={name} class={value === 1 || value === 0 ? "idle" : ""}><dt>{name.replaceAll("_", " ")}</dt><dd>{value === 0 || value === 1 ? value : value.toFixed(3)}</dd></div>)}
      {each.explain?.session !== undefined && <div><dt>best of its conversation</dt><dd>{each.explain.session.toFixed(3)}</dd></div>}
    </dl>
  </div>
);
