// What is held back: facts in quarantine, and text that the sanitizer flagged.
import type { JSX } from "preact";
import { useAnswer, usePages } from "../../net/answer";
import { segment, type Ask } from "../../net/send";
import type { Fact } from "../../net/types";
import { Empty, Fault } from "../../parts/frame";
import { Bar, Name, NameText, Relation, Value, When } from "../../parts/names";
import { plural, visible } from "../../parts/text";
import { addressOf, amend, param } from "../../state/place";
import { may, me } from "../../state/session";
import { Doing, Saying, statingAgain } from "./actions";

interface Held {
  readonly fact_id: string;
  readonly entity: string;
  readonly relation: string;
  readonly source: string;
  readonly quarantine_status: string;
  readonly quarantine_reason: string | null;
  readonly quarantine_acted_by: string | null;
  readonly source_trust: number | null;
  readonly received_from: string | null;
  readonly timestamp: string;
}

const STATUS = ["pending", "promoted", "rejected"] as const;
const STATUS_TEXT: Record<string, string> = { pending: "waiting", promoted: "admitted", rejected: "rejected" };
const PAGE = 20;

export const quarantineAsk = (status: string): Ask => ({ path: "/v1/quarantine", query: { quarantine_status: status || "pending", limit: PAGE } });

export const Quarantine = ({ ask }: { ask: Ask }): JSX.Element => {
  const found = usePages<{ items: readonly Held[]; total: number }, Held>(ask, ({ items, total }, asked) => {
    const offset = Number(asked.query?.["offset"] ?? 0) + items.length;
    return { rows: items, total, next: items.length === 0 || offset >= total ? null : { ...asked, query: { ...asked.query, offset } } };
  });
  const status = param("status") || "pending";
  return (
    <div class="columns">
      <div class="section-head">
        <div class="choices" role="group" aria-label="Status">
          {STATUS.map((each) => <button type="button" key={each} aria-pressed={status === each} onClick={() => amend({ status: each })}>{STATUS_TEXT[each]}</button>)}
        </div>
        {may("write") && <NewQuarantine />}
      </div>
      <Fault fault={found.fault} />
      {found.data?.length === 0 && <Empty>{status === "pending" ? "Nothing waits in the quarantines you belong to. Facts that come into a quarantine garden, or that you put there, are listed here until a moderator admits or rejects them." : `None was ${STATUS_TEXT[status] ?? status} yet.`}</Empty>}
      {(found.data?.length ?? 0) > 0 && <p class="muted">{plural(found.total ?? 0, "fact")} {STATUS_TEXT[status]}</p>}
      {found.data?.map((each) => <OneHeld key={each.fact_id} held={each} />)}
      {found.more !== null && <button type="button" onClick={found.more}>More</button>}
    </div>
  );
};

const NewQuarantine = (): JSX.Element => (
  <Doing label="New quarantine" title="Make a quarantine" reason="none"
    fields={<>
      <label>Name<input name="name" required maxLength={60} pattern=".*[A-Za-z0-9].*" autocomplete="off" /></label>
      <label>Scope<select name="scope">{me.value !== null && me.value !== "none" && me.value.scopes.map((each) => <option key={each} selected={each === "company"}>{each}</option>)}</select></label>
    </>}
    ask={(_, fields) => {
      const name = String(fields.get("name")).trim();
      return { method: "POST", path: "/v1/gardens", body: { name, slug: slugOf(name), scope: String(fields.get("scope")), quarantine: true } };
    }}>
    <p class="muted">A garden whose facts wait for a judgement. You become its moderator; others join by <code>POST /v1/gardens/SLUG/members</code>.</p>
  </Doing>
);

const slugOf = (name: string): string => name.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-").replaceAll(/^-+|-+$/g, "");

const OneHeld = ({ held }: { held: Held }): JSX.Element => {
  // A judged fact has ended and counts for nothing any more; its life says what it was stated with.
  const { data, fault } = useAnswer<{ fact: Fact | null; belief: readonly { confidence: number }[] }>({ path: `/v1/time-travel/facts/${segment(held.fact_id)}` });
  const fact = data === null || data.fact === null ? null : { ...data.fact, confidence: data.belief[0]?.confidence ?? data.fact.confidence };
  return (
    <article class="conflict" aria-label="Fact in quarantine">
      <h2><Name uri={held.entity} /> <Relation name={held.relation} /></h2>
      <Fault fault={fault} />
      {fact !== null && <p class="quoted"><Value value={fact.value} /></p>}
      <p class="fact-foot">
        <span>says <NameText uri={held.source} /></span><Bar part={held.source_trust} label="trust" tone="trust" />
        <a href={addressOf("fact", { id: held.fact_id })}><When at={held.timestamp} /></a>
        {held.received_from !== null && <span>through <NameText uri={held.received_from} /></span>}
        {held.quarantine_acted_by !== null && <span>{STATUS_TEXT[held.quarantine_status]} by <NameText uri={held.quarantine_acted_by} /></span>}
      </p>
      {held.quarantine_reason && <p>{visible(held.quarantine_reason)}</p>}
      {fact !== null && may("write") && (held.quarantine_status === "pending" ? <Judge fact={fact} /> : <HoldAgain fact={fact} />)}
    </article>
  );
};

/** Admit a fact that waits, or reject it. */
export const Judge = ({ fact }: { fact: Fact }): JSX.Element => (
  <p class="graph-acts">
    <Doing label="Admit" primary title="Admit this fact" ask={(reason) => ({ method: "POST", path: `/v1/quarantine/${segment(fact.id)}/admit`, query: { reason } })}>
      <Saying fact={fact} />
      <p class="muted">It is stated again outside the quarantine, by the same source.</p>
    </Doing>
    <Doing label="Reject" danger title="Reject this fact" ask={(reason) => ({ method: "POST", path: `/v1/quarantine/${segment(fact.id)}/reject`, query: { reason } })}>
      <Saying fact={fact} />
      <p class="muted">It ends. Members of the quarantine can still read it, and can hold it again.</p>
    </Doing>
  </p>
);

/** Take a judgement back: the fact waits once more. What was admitted stays until it is retracted. */
const HoldAgain = ({ fact }: { fact: Fact }): JSX.Element => (
  <p class="graph-acts">
    <Doing label="Judge again" title="Judge this fact again" reason="none" ask={() => statingAgain(fact, null, "")}>
      <Saying fact={fact} />
      <p class="muted">It is stated in its quarantine once more. If it was admitted, the admitted fact stays until it is retracted.</p>
    </Doing>
  </p>
);

interface Garden {
  readonly id: string;
  readonly name: string;
  readonly quarantine: boolean;
}

/** Take a fact out of what is known, into a quarantine, until somebody judges it. */
export const PutAside = ({ fact }: { fact: Fact }): JSX.Element => (
  <Doing label="Quarantine" title="Put this fact in quarantine" fields={<Quarantines />}
    ask={(reason, fields) => statingAgain(fact, fact.id, reason || "put in quarantine", String(fields.get("garden") ?? ""))}>
    <Saying fact={fact} />
    <p class="muted">It ends here and waits in the quarantine. Its members see it, others do not, until it is admitted.</p>
  </Doing>
);

const Quarantines = (): JSX.Element => {
  const { data, fault } = useAnswer<readonly Garden[]>({ path: "/v1/gardens" });
  const fit = data?.filter((garden) => garden.quarantine) ?? [];
  if (data !== null && fit.length === 0) return <Empty>You belong to no quarantine. Make one under <a href={addressOf("review", { tab: "quarantine" })}>Review</a>.</Empty>;
  return (
    <>
      <Fault fault={fault} />
      <label>Quarantine<select name="garden" required>{fit.map((garden) => <option key={garden.id} value={garden.id}>{visible(garden.name)}</option>)}</select></label>
    </>
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
