// One answer: the packed text with its tokens, the stages, and the candidates with their scores.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useAnswer } from "../../net/answer";
import { Empty, Fault, Section } from "../../parts/frame";
import { Marks, Name, NameText, Relation, Value, When } from "../../parts/names";
import { count, plural, visible } from "../../parts/text";
import { addressOf, amend, param } from "../../state/place";
import { tokensOf } from "./tokens";
import type { LabAsks, RecallAnswer, RecallText, Recalled } from "./types";

const SHOWN = 12;
/** Always the same colour for the same stage, whatever else there is. */
const STAGES = ["lexical", "semantic", "graph", "fuzzy", "simhash", "summaries"];
const colourOf = (stage: string): number => (STAGES.indexOf(stage) === -1 ? 5 : STAGES.indexOf(stage)) + 1;

interface AnsweredProps {
  readonly asks: LabAsks;
  readonly other: LabAsks | null;
  readonly label: string;
}

export const Answered = ({ asks, other, label }: AnsweredProps): JSX.Element => {
  const lines = useAnswer<RecallText>(asks.lines);
  const { data, fault, waiting } = useAnswer<RecallAnswer>(asks.all);
  const against = useAnswer<RecallAnswer>(other === null ? null : other.all);
  const stage = param("stage");
  const setStage = (name: string): void => amend({ stage: name }, true);
  const [more, setMore] = useState(false);
  if (fault !== null) return <Fault fault={fault} />;
  if (data === null) return <p class="empty" role="status">…</p>;
  const ranks = against.data === null ? null : new Map(against.data.results.map((each, place) => [each.id, place + 1]));
  const packed = new Set((lines.data?.text ?? "").split("\n").map((line) => line.split(" | ").at(-1) ?? ""));
  const ranked = data.results.map((each, place) => ({ each, rank: place + 1 }));
  const raw = ({ each }: { each: Recalled }): number => each.explain?.stages[stage]?.raw ?? 0;
  const found = stage === "" ? ranked : ranked.filter(({ each }) => each.explain?.stages[stage] !== undefined).sort((a, b) => raw(b) - raw(a));
  const shown = more ? found : found.slice(0, SHOWN);
  return (
    <div class={waiting ? "columns waiting" : "columns"} aria-busy={waiting}>
      {label && <h2 class="side-label">{label}</h2>}
      <Section title="What the model gets" aside={lines.data !== null && <span class="muted">{plural(lines.data.returned, "fact")} of {count(lines.data.total_scored)} scored, at event {count(lines.data.moment.position)}</span>}>
        <Fault fault={lines.fault} />
        {lines.data !== null && <Packed of={lines.data} />}
      </Section>
      <Section title="Stages">
        <div class="stages" role="group" aria-label="Candidates of a stage">
          {data.stages.map((each) => (
            <button type="button" key={each.name} class={`stage stage-${colourOf(each.name)}${each.status === "completed" ? "" : " off"}`} disabled={each.hits === 0}
              aria-pressed={stage === each.name} title={each.hits === 0 ? "" : "Lists its candidates, the best first"} onClick={() => setStage(stage === each.name ? "" : each.name)}>
              <strong>{each.name}</strong> <span class="muted">{each.status === "completed" ? `${plural(each.hits, "candidate")} in ${each.milliseconds.toFixed(1)} ms` : `${each.status}${each.detail ? `: ${visible(each.detail)}` : ""}`}</span>
              {data.weights[each.name] !== undefined && <span class="muted"> weighs {Number(data.weights[each.name]?.toPrecision(3))}</span>}
            </button>
          ))}
        </div>
      </Section>
      <Section title={stage === "" ? "Candidates" : `Candidates of the stage ${stage}`} aside={stage !== "" && <button type="button" class="quiet" onClick={() => setStage("")}>of all stages</button>}>
        {found.length === 0 && <Empty>{stage === "" ? "Nothing was found that you may read." : `None of the best ${count(ranked.length)} came from it.`}</Empty>}
        <ol class="candidates">
          {shown.map(({ each, rank }) => <Candidate key={each.id} each={each} rank={rank} packed={packed.has(each.id)} other={ranks === null ? undefined : ranks.get(each.id) ?? null} best={data.results[0]?.score ?? 1} />)}
        </ol>
        {found.length > SHOWN && <button type="button" aria-expanded={more} onClick={() => setMore(!more)}>{more ? "Fewer" : `All ${count(found.length)}`}</button>}
      </Section>
    </div>
  );
};

/** The answer line by line, with what each costs of the budget. */
const Packed = ({ of }: { of: RecallText }): JSX.Element => {
  const [copied, setCopied] = useState(false);
  const lines = of.text.split("\n").map((text) => ({ text, tokens: tokensOf(text) + 1 }));
  const most = Math.max(1, ...lines.map(({ tokens }) => tokens));
  const copy = (): void => void navigator.clipboard?.writeText(of.text).then(() => setCopied(true));
  let at = 0;
  return (
    <>
      <div class="budget" title={`${of.tokens_used} of ${of.token_budget} tokens`}>
        <svg viewBox="0 0 1000 14" preserveAspectRatio="none" role="img" aria-label={`${of.tokens_used} of ${of.token_budget} tokens are used`}>
          <rect class="bar-ground" width="1000" height="14" />
          {lines.map(({ tokens }, place) => {
            const width = (1000 * tokens) / of.token_budget;
            const x = at;
            at += width;
            return <rect key={place} class={place % 2 ? "piece odd" : "piece"} x={x} width={Math.max(0.8, width)} height="14" />;
          })}
        </svg>
        <span class="muted">{count(of.tokens_used)} of {count(of.token_budget)} tokens{of.truncated && "; not everything fitted"}</span>
        <button type="button" class="quiet" onClick={copy}><span aria-live="polite">{copied ? "copied" : "copy the text"}</span></button>
      </div>
      <div class="packed" tabIndex={0} role="region" aria-label="Packed text">
        {lines.map(({ text, tokens }, place) => (
          <div class="packed-line" key={place}>
            <svg class="packed-tokens" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="piece" width={(100 * tokens) / most} height="8" /></svg>
            <span class="packed-count">{tokens}<span class="unseen"> tokens</span></span>
            <bdi>{visible(text)}</bdi>
          </div>
        ))}
      </div>
    </>
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
