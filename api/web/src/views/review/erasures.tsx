// Erasing for good, and what forbids it. Before anything goes, the form shows what would.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useAnswer, usePages } from "../../net/answer";
import { segment, type Ask } from "../../net/send";
import type { FactPage } from "../../net/types";
import { Empty, Fault, Section } from "../../parts/frame";
import { Name, NameText, Relation, Value, When } from "../../parts/names";
import { Rows } from "../../parts/rows";
import { addressOf } from "../../state/place";
import { kindText, plural, visible } from "../../parts/text";
import { me } from "../../state/session";
import { Doing, Saying, useTaken, type ActProps, type Meanwhile } from "./actions";

interface Hold {
  readonly target_kind: "fact" | "entity";
  readonly target: string;
  readonly actor: string;
  readonly set_at: string;
  readonly reason: string;
  readonly tombstone_id: string | null;
}

const holding = (kind: "fact" | "entity", target: string, held: boolean, reason: string): Ask => ({
  method: "PUT", path: "/v1/legal-holds", body: { [kind === "entity" ? "entity" : "fact_id"]: target, held, reason },
});

const nameOf = (hold: Hold): string => `${hold.target_kind} ${hold.target} ${hold.tombstone_id}`;

/** Forbid erasing a fact. */
export const HoldFact = ({ fact, meanwhile }: ActProps): JSX.Element => (
  <Doing label="Hold" title="Put a legal hold on this fact" meanwhile={meanwhile} ask={(reason) => holding("fact", fact.id, true, reason)}>
    <Saying fact={fact} />
    <p class="muted">It cannot be erased until it is <a href={addressOf("review", { tab: "holds" })}>let go</a>.</p>
  </Doing>
);

export const Holds = ({ ask }: { ask: Ask }): JSX.Element => {
  const found = usePages<{ holds: readonly Hold[]; cursor: number | null }, Hold>(ask, ({ holds, cursor }, asked) => ({
    rows: holds, total: null, next: cursor === null ? null : { ...asked, query: { ...asked.query, cursor } },
  }));
  const { taken, take } = useTaken(found.round);
  const added = useTaken(found.round);
  const [coming, setComing] = useState<readonly Hold[]>([]);
  // One that is held again shows its new reason alone.
  const again = (hold: Hold): boolean => hold.target_kind === "entity" && hold.tombstone_id === null && added.taken.has(hold.target);
  const holds = found.data === null ? [] : [...coming.filter(again), ...found.data.filter((hold) => !again(hold))];
  const toCome: Meanwhile = (reason, fields) => {
    const target = String(fields.get("entity")).trim();
    const actor = me.value === null || me.value === "none" ? "" : me.value.entity_uri;
    setComing((before) => [...before.filter((hold) => hold.target !== target), { target_kind: "entity", target, actor, set_at: new Date().toISOString(), reason, tombstone_id: null }]);
    return added.take(target);
  };
  return (
    <div class="columns">
      <Fault fault={found.fault} />
      <div class="section-head">
        <p class="muted">What is held cannot be erased until it is let go. A fact is held from its own page.</p>
        <Doing label="Hold an entity" primary title="Hold an entity" meanwhile={toCome}
          fields={<label>Entity<input name="entity" required maxLength={2048} spellcheck={false} /></label>}
          ask={(reason, fields) => holding("entity", String(fields.get("entity")).trim(), true, reason)} />
      </div>
      {found.data !== null && holds.every((hold) => taken.has(nameOf(hold))) && <Empty>Nothing is held.</Empty>}
      <Rows rows={holds} label="Legal holds, newest first" height={74} measured more={found.more} keyOf={nameOf} taken={taken}
        draw={(hold) => (
          <div class="fact held">
            <span>
              <span>{hold.target_kind === "entity" ? <Name uri={hold.target} /> : <a href={addressOf("fact", { id: hold.target })}>fact <code>{visible(hold.target)}</code></a>} {hold.reason === "" ? <span class="muted">no reason given</span> : <bdi>{visible(hold.reason)}</bdi>}</span>
              <span class="fact-foot"><span>since <When at={hold.set_at} exact /></span><span>by <NameText uri={hold.actor} /></span>{hold.tombstone_id !== null && <span class="tag">by a tombstone</span>}</span>
            </span>
            {hold.tombstone_id === null
              ? <Doing label="Let go" title="Let it go" meanwhile={() => take(nameOf(hold))} ask={(reason) => holding(hold.target_kind, hold.target, false, reason)}><p class="quoted"><bdi>{visible(hold.reason) || "held without a reason"}</bdi></p></Doing>
              : <Doing label="Revoke" title="Revoke the tombstone" reason="needed" meanwhile={() => take(nameOf(hold))} ask={(reason) => ({ method: "POST", path: `/v1/tombstones/${segment(hold.tombstone_id ?? "")}/revoke`, body: { reason } })}><p>The entity is shown again and can be erased.</p></Doing>}
          </div>
        )} />
    </div>
  );
};

interface Erasure {
  readonly erasure_id: string;
  readonly status: string;
  readonly reason: string;
  readonly actor: string;
  readonly requested_at: string;
  readonly facts: number;
  readonly events: number;
  readonly error: string | null;
}

const REASONS = ["unspecified", "request", "law", "policy", "mistake"];

export const Erasures = ({ ask }: { ask: Ask }): JSX.Element => {
  const found = usePages<{ erasures: readonly Erasure[]; before: number | null }, Erasure>(ask, ({ erasures, before }, asked) => ({
    rows: erasures, total: null, next: before === null ? null : { ...asked, query: { ...asked.query, before } },
  }));
  const [entity, setEntity] = useState("");
  return (
    <div class="columns">
      <Fault fault={found.fault} />
      <Section title="Erase what is known of an entity">
        <form class="form-line" onSubmit={(event) => { event.preventDefault(); setEntity(String(new FormData(event.currentTarget).get("entity")).trim()); }}>
          <label class="grow">Entity <input name="entity" required maxLength={2048} spellcheck={false} /></label>
          <button>What would go?</button>
        </form>
        {entity !== "" && <Preview entity={entity} />}
      </Section>
      <Section title="Erasures">
        {found.data?.length === 0 && <Empty>Nothing was ever erased here.</Empty>}
        <Rows rows={found.data ?? []} label="Erasures, newest first" height={74} measured more={found.more} keyOf={({ erasure_id }) => erasure_id}
          draw={(each) => (
            <div class="fact">
              <span><span class={each.status === "clean" ? "tag good" : "tag warn"}>{kindText(each.status)}</span> <code>{each.erasure_id}</code></span>
              <span class="fact-foot"><span>{plural(each.facts, "fact")}, {plural(each.events, "event")}</span><span>reason: {visible(each.reason)}</span><When at={each.requested_at} exact /><span>by <NameText uri={each.actor} /></span></span>
              {each.error !== null && <p class="notice bad"><span>{visible(each.error)}</span></p>}
            </div>
          )} />
      </Section>
    </div>
  );
};

/** Erasing cannot be undone: the page shows it once the node has done it, never before. */
const Preview = ({ entity }: { entity: string }): JSX.Element => {
  const everything = { include_contradicted: true, include_retracted: true, include_expired: true };
  const about = useAnswer<FactPage>({ path: "/v1/facts", query: { entity, ...everything, limit: 20 } });
  return (
    <div class="statement">
      <Fault fault={about.fault} />
      <p><strong>{plural(about.data?.total ?? 0, "fact")}</strong> about <NameText uri={entity} />, ended ones included; every fact that names it; copies, retractions, receipts and aliases that speak of them.</p>
      <ol class="facts">{about.data?.facts.map((fact) => <li class="fact" key={fact.id}><span><Relation name={fact.relation} /> <Value value={fact.value} /> <span class="muted">says <NameText uri={fact.source} /></span></span></li>)}</ol>
      {(about.data?.total ?? 0) > 20 && <p class="muted">and {plural((about.data?.total ?? 0) - 20, "more")}</p>}
      <p>The headers of their events stay, so the hash chain holds; what was said is gone from the past too. <strong>This cannot be undone.</strong></p>
      <p><Doing label="Erase" danger title={`Erase ${visible(entity).slice(0, 80)}`} reason="none"
        fields={<>
          <label>Reason<select name="why">{REASONS.map((each) => <option key={each}>{each}</option>)}</select></label>
          <label class="inline"><input type="checkbox" name="mentions" defaultChecked /> also facts and episodes that name it</label>
          <label class="inline"><input type="checkbox" name="derived" /> also what was derived from it</label>
          <label>Write the entity once more<input name="again" required pattern={entity.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, "\\$&")} spellcheck={false} autocomplete="off" /></label>
        </>}
        ask={(_, fields) => ({
          method: "POST", path: "/v1/erasures",
          body: { entity, reason: String(fields.get("why")), mentions: fields.get("mentions") !== null, derived: fields.get("derived") !== null },
        })} /></p>
    </div>
  );
};
