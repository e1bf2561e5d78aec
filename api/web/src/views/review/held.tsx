// What is held back: facts in quarantine, and text that the sanitizer flagged.
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { useAnswer, usePages } from "../../net/answer";
import { segment, type Ask } from "../../net/send";
import type { Fact } from "../../net/types";
import { Empty, Fault } from "../../parts/frame";
import { Bar, Name, NameText, Relation, Value, When } from "../../parts/names";
import { Rows } from "../../parts/rows";
import { plural, visible } from "../../parts/text";
import { addressOf, amend, param } from "../../state/place";
import { may, me } from "../../state/session";
import { Doing, Saying, statingAgain, useTaken, type ActProps, type Meanwhile } from "./actions";

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
/** About as high as one is, in pixels. */
const CARD = 230;

export const quarantineAsk = (status: string): Ask => ({ path: "/v1/quarantine", query: { quarantine_status: status || "pending", limit: PAGE } });

export const Quarantine = ({ ask }: { ask: Ask }): JSX.Element => {
  const found = usePages<{ items: readonly Held[]; total: number }, Held>(ask, ({ items, total }, asked) => {
    const offset = Number(asked.query?.["offset"] ?? 0) + items.length;
    return { rows: items, total, next: items.length === 0 || offset >= total ? null : { ...asked, query: { ...asked.query, offset } } };
  });
  const status = param("status") || "pending";
  const { taken, take } = useTaken(found.round);
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
      {(found.data?.length ?? 0) > 0 && <p class="muted">{plural(Math.max(0, (found.total ?? 0) - taken.size), "fact")} {STATUS_TEXT[status]}</p>}
      <Rows rows={found.data ?? []} label="Quarantined" height={CARD} measured more={found.more} total={found.total} keyOf={({ fact_id }) => fact_id} taken={taken}
        draw={(each) => <OneHeld held={each} meanwhile={() => take(each.fact_id)} />} />
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

const OneHeld = ({ held, meanwhile }: { held: Held; meanwhile: Meanwhile }): JSX.Element => {
  const [again, setAgain] = useState(false);
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
      {fact !== null && may("write") && (held.quarantine_status === "pending" ? <Judge fact={fact} meanwhile={meanwhile} />
        : <><HoldAgain fact={fact} meanwhile={() => { setAgain(true); return setAgain; }} />{again && <p><span class="tag">waits again</span></p>}</>)}
    </article>
  );
};

/** Admit a fact that waits, or reject it. */
export const Judge = ({ fact, meanwhile }: ActProps): JSX.Element => (
  <p class="graph-acts">
    <Doing label="Admit" primary title="Admit this fact" meanwhile={meanwhile} ask={(reason) => ({ method: "POST", path: `/v1/quarantine/${segment(fact.id)}/admit`, query: { reason } })}>
      <Saying fact={fact} />
      <p class="muted">It is stated again outside the quarantine, by the same source.</p>
    </Doing>
    <Doing label="Reject" danger title="Reject this fact" meanwhile={meanwhile} ask={(reason) => ({ method: "POST", path: `/v1/quarantine/${segment(fact.id)}/reject`, query: { reason } })}>
      <Saying fact={fact} />
      <p class="muted">It ends. Members of the quarantine can still read it, and can hold it again.</p>
    </Doing>
  </p>
);

/** Take a judgement back: the fact waits once more. What was admitted stays until it is retracted. */
const HoldAgain = ({ fact, meanwhile }: ActProps): JSX.Element => (
  <p class="graph-acts">
    <Doing label="Judge again" title="Judge this fact again" reason="none" meanwhile={meanwhile} ask={() => statingAgain(fact, null, "")}>
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

/** Take a fact out of what is known, into a quarantine, until a moderator judges it. */
export const PutAside = ({ fact, meanwhile }: ActProps): JSX.Element => (
  <Doing label="Quarantine" title="Put this fact in quarantine" meanwhile={meanwhile} fields={<Quarantines />}
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

interface FlaggedFact {
  readonly fact: Fact;
  readonly codes: readonly string[];
  readonly review: { readonly decision: string; readonly reason: string; readonly reviewer: string; readonly decided_at: string; readonly position: number } | null;
}

interface FlaggedPage {
  readonly flagged: readonly FlaggedFact[];
  readonly next_before: number | null;
  readonly mode: string;
}

const DECIDED: readonly [string, string][] = [["pending", "waiting"], ["released", "released"], ["kept", "kept back"]];

export const flaggedAsk = (status: string): Ask => ({ path: "/v1/content/flagged", query: { status: status || "pending", limit: PAGE } });

export const Flagged = ({ ask }: { ask: Ask }): JSX.Element => {
  const mode = useRef("");
  const found = usePages<FlaggedPage, FlaggedFact>(ask, (page, asked) => {
    mode.current = page.mode;
    return { rows: page.flagged, total: null, next: page.next_before === null ? null : { ...asked, query: { ...asked.query, before: page.next_before } } };
  });
  const status = param("status") || "pending";
  const { taken, take } = useTaken(found.round);
  return (
    <div class="columns">
      <div class="choices" role="group" aria-label="Status">
        {DECIDED.map(([each, words]) => <button type="button" key={each} aria-pressed={status === each} onClick={() => amend({ status: each })}>{words}</button>)}
      </div>
      <Fault fault={found.fault} />
      {found.data !== null && <p class="muted">The sanitizer's mode is <strong>{mode.current}</strong>.</p>}
      {found.data?.length === 0 && <Empty>{status === "pending" ? "Nothing waits. Text that reads like an order to a model, or hides characters, is listed here." : "None yet."}</Empty>}
      <Rows rows={found.data ?? []} label="Flagged text" height={CARD} measured more={found.more} keyOf={({ fact }) => fact.id} taken={taken}
        draw={(each) => <OneFlagged flagged={each} meanwhile={() => take(each.fact.id)} />} />
    </div>
  );
};

const OneFlagged = ({ flagged: { fact, codes, review }, meanwhile }: { flagged: FlaggedFact; meanwhile: Meanwhile }): JSX.Element => (
  <article class="conflict" aria-label="Flagged fact">
    <h2><Name uri={fact.entity} /> <Relation name={fact.relation} /></h2>
    <p class="quoted"><Value value={fact.value} /></p>
    <p class="fact-foot">{codes.map((code) => <span class="tag warn" key={code}>{code.replaceAll("_", " ")}</span>)}<span>says <NameText uri={fact.source} /></span><a href={addressOf("fact", { id: fact.id })}><When at={fact.timestamp} /></a></p>
    {review !== null && (
      <p><a href={addressOf("log", { event: String(review.position) })}>{review.decision === "release" ? "Released" : "Kept back"}</a> by <NameText uri={review.reviewer} />, <When at={review.decided_at} exact />: {review.reason === "" ? <span class="muted">no reason given</span> : <bdi>{visible(review.reason)}</bdi>}</p>
    )}
    <p class="graph-acts">
      {([["Release", "release"], ["Keep back", "keep"]] as const).filter(([, decision]) => decision !== review?.decision).map(([label, decision]) => (
        <Doing key={decision} label={label} title={decision === "release" ? "Release: the text is harmless" : "Keep back: the text stays hidden"} primary={decision === "release"} danger={decision === "keep"} meanwhile={meanwhile}
          ask={(reason) => ({ method: "POST", path: `/v1/content/flagged/${segment(fact.id)}/review`, body: { decision, reason } })}>
          <Saying fact={fact} />
        </Doing>
      ))}
    </p>
  </article>
);
