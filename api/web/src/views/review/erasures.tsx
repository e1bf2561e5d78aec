// Erasing for good, and what forbids it. Before anything goes, the form shows what would.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useAnswer } from "../../net/answer";
import type { Ask } from "../../net/send";
import type { FactPage } from "../../net/types";
import { Empty, Fault, Section } from "../../parts/frame";
import { Name, NameText, Relation, Value, When } from "../../parts/names";
import { addressOf } from "../../state/place";
import { kindText, plural, visible } from "../../parts/text";
import { Doing } from "./actions";

interface Hold {
  readonly target_kind: "fact" | "entity";
  readonly target: string;
  readonly actor: string;
  readonly set_at: string;
}

export const Holds = ({ ask }: { ask: Ask }): JSX.Element => {
  const { data, fault } = useAnswer<{ holds: readonly Hold[] }>(ask);
  return (
    <div class="columns">
      <Fault fault={fault} />
      <p>What is held cannot be erased until it is let go. <Doing label="Hold an entity" primary title="Hold an entity" reason="none"
        fields={<label>Entity<input name="entity" required maxLength={2048} spellcheck={false} /></label>}
        ask={(_, fields) => ({ method: "PUT", path: "/v1/legal-holds", body: { entity: String(fields.get("entity")).trim(), held: true } })} /></p>
      {data?.holds.length === 0 && <Empty>Nothing is held.</Empty>}
      <ul class="facts">
        {data?.holds.map((hold) => (
          <li class="fact held" key={`${hold.target_kind} ${hold.target}`}>
            <span>{hold.target_kind === "entity" ? <Name uri={hold.target} /> : <a href={addressOf("fact", { id: hold.target })}>fact <code>{visible(hold.target)}</code></a>} <span class="muted">since <When at={hold.set_at} /> by <NameText uri={hold.actor} /></span></span>
            <Doing label="Let go" title="Let it go" reason="none" ask={() => ({ method: "PUT", path: "/v1/legal-holds", body: { [hold.target_kind === "entity" ? "entity" : "fact_id"]: hold.target, held: false } })} />
          </li>
        ))}
      </ul>
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
  const { data, fault } = useAnswer<{ erasures: readonly Erasure[] }>(ask);
  const [entity, setEntity] = useState("");
  return (
    <div class="columns">
      <Fault fault={fault} />
      <Section title="Erase what is known of an entity">
        <form class="form-line" onSubmit={(event) => { event.preventDefault(); setEntity(String(new FormData(event.currentTarget).get("entity")).trim()); }}>
          <label class="grow">Entity <input name="entity" required maxLength={2048} spellcheck={false} /></label>
          <button>What would go?</button>
        </form>
        {entity !== "" && <Preview entity={entity} />}
      </Section>
      <Section title="Erasures">
        {data?.erasures.length === 0 && <Empty>Nothing was ever erased here.</Empty>}
        <ul class="facts">
          {data?.erasures.map((each) => (
            <li class="fact" key={each.erasure_id}>
              <span><span class={each.status === "clean" ? "tag good" : "tag warn"}>{kindText(each.status)}</span> <code>{each.erasure_id}</code></span>
              <span class="fact-foot"><span>{plural(each.facts, "fact")}, {plural(each.events, "event")}</span><span>reason: {visible(each.reason)}</span><When at={each.requested_at} exact /><span>by <NameText uri={each.actor} /></span></span>
              {each.error !== null && <p class="notice bad"><span>{visible(each.error)}</span></p>}
            </li>
          ))}
        </ul>
      </Section>
    </div>
  );
};

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
