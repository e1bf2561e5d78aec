// What is held back: facts in quarantine, and text that the sanitizer flagged.
import type { JSX } from "preact";
import { useAnswer } from "../../net/answer";
import { segment, type Ask } from "../../net/send";
import type { Fact } from "../../net/types";
import { Empty, Fault } from "../../parts/frame";
import { Bar, Name, NameText, Relation, Value, When } from "../../parts/names";
import { plural, visible } from "../../parts/text";
import { addressOf } from "../../state/place";
import { Doing, Saying } from "./actions";

interface Held {
  readonly fact_id: string;
  readonly entity: string;
  readonly relation: string;
  readonly source: string;
  readonly quarantine_status: string;
  readonly quarantine_reason: string | null;
  readonly source_trust: number | null;
  readonly received_from: string | null;
  readonly timestamp: string;
}

export const Quarantine = ({ ask }: { ask: Ask }): JSX.Element => {
  const { data, fault } = useAnswer<{ items: readonly Held[]; total: number }>(ask);
  return (
    <div class="columns">
      <Fault fault={fault} />
      {data?.items.length === 0 && <Empty>Nothing waits in the quarantines you belong to. Facts that come into a quarantine garden are listed here until a moderator admits or rejects them.</Empty>}
      {(data?.items.length ?? 0) > 0 && <p class="muted">{plural(data?.total ?? 0, "fact")} to judge</p>}
      {data?.items.map((each) => (
        <article class="conflict" key={each.fact_id} aria-label="Fact in quarantine">
          <h2><Name uri={each.entity} /> <Relation name={each.relation} /></h2>
          <p class="fact-foot">
            <span>says <NameText uri={each.source} /></span><Bar part={each.source_trust} label="trust" tone="trust" />
            <a href={addressOf("fact", { id: each.fact_id })}><When at={each.timestamp} /></a>
            {each.received_from !== null && <span>through <NameText uri={each.received_from} /></span>}
          </p>
          {each.quarantine_reason && <p>{visible(each.quarantine_reason)}</p>}
          <p class="graph-acts">
            <Doing label="Admit" primary title="Admit this fact" ask={(reason) => ({ method: "POST", path: `/v1/quarantine/${segment(each.fact_id)}/admit`, query: { reason } })} />
            <Doing label="Reject" danger title="Reject this fact" ask={(reason) => ({ method: "POST", path: `/v1/quarantine/${segment(each.fact_id)}/reject`, query: { reason } })} />
          </p>
        </article>
      ))}
    </div>
  );
};

interface FlaggedPage {
  readonly flagged: readonly { fact: Fact; codes: readonly string[]; status: string }[];
  readonly mode: string;
}

export const Flagged = ({ ask }: { ask: Ask }): JSX.Element => {
  const { data, fault } = useAnswer<FlaggedPage>(ask);
  return (
    <div class="columns">
      <Fault fault={fault} />
      {data !== null && <p class="muted">The sanitizer's mode is <strong>{data.mode}</strong>.</p>}
      {data?.flagged.length === 0 && <Empty>Nothing waits. Text that reads like an order to a model, or hides characters, is listed here.</Empty>}
      {data?.flagged.map(({ fact, codes }) => (
        <article class="conflict" key={fact.id} aria-label="Flagged fact">
          <h2><Name uri={fact.entity} /> <Relation name={fact.relation} /></h2>
          <p class="quoted"><Value value={fact.value} /></p>
          <p class="fact-foot">{codes.map((code) => <span class="tag warn" key={code}>{code.replaceAll("_", " ")}</span>)}<span>says <NameText uri={fact.source} /></span><a href={addressOf("fact", { id: fact.id })}><When at={fact.timestamp} /></a></p>
          <p class="graph-acts">
            {([["Release", "release"], ["Keep back", "keep"]] as const).map(([label, decision]) => (
              <Doing key={decision} label={label} title={`${label}: is it harmless?`} primary={decision === "release"} danger={decision === "keep"}
                ask={(reason) => ({ method: "POST", path: `/v1/content/flagged/${segment(fact.id)}/review`, body: { decision, reason } })}>
                <Saying fact={fact} />
              </Doing>
            ))}
          </p>
        </article>
      ))}
    </div>
  );
};
