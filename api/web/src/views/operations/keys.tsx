// Keys: whose, what they may, until when. A new one is made here and shown once.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useAnswer } from "../../net/answer";
import { segment, type Ask } from "../../net/send";
import { Empty, Fault } from "../../parts/frame";
import { NameText, When } from "../../parts/names";
import { visible } from "../../parts/text";
import { may, me } from "../../state/session";
import { Doing } from "../review/actions";

interface Key {
  readonly id: string;
  readonly entity_uri: string;
  readonly permissions: readonly string[];
  readonly description: string | null;
  readonly expires_at: string | null;
  readonly scopes: readonly string[];
}

const PERMISSIONS = ["read", "write", "federate", "admin", "audit.read", "instruction:write", "replicate"];
const SCOPES = ["local", "team", "company", "public"];

const fresh = (): string => {
  const bytes = crypto.getRandomValues(new Uint8Array(32));
  return `ek_${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
};

export const Keys = (): JSX.Element => {
  const ask: Ask = { path: "/v1/auth/keys", query: { all: may("admin") || null } };
  const { data, fault } = useAnswer<readonly Key[]>(me.value === null ? null : ask);
  const [secret, setSecret] = useState("");
  const [made, setMade] = useState("");
  return (
    <div class="stack">
      <Fault fault={fault} />
      {made !== "" && <p class="notice good" role="status"><span>The new key, shown this once: <code>{made}</code></span></p>}
      {data?.length === 0 && <Empty>No key is accepted yet.</Empty>}
      {data !== null && data.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Keys">
          <table class="table">
            <thead><tr><th scope="col">Whose</th><th scope="col">May</th><th scope="col">In</th><th scope="col">Until</th><th scope="col">For</th><th scope="col"><span class="unseen">Revoke</span></th></tr></thead>
            <tbody>{data.map((key) => (
              <tr key={key.id}><td><NameText uri={key.entity_uri} /></td><td>{key.permissions.join(", ")}</td><td>{key.scopes.join(", ")}</td>
                <td>{key.expires_at === null ? "it is revoked" : <When at={key.expires_at} />}</td><td><bdi>{visible(key.description ?? "")}</bdi></td>
                <td><Doing label="Revoke" danger title="Revoke this key" reason="none" ask={() => ({ method: "DELETE", path: `/v1/auth/keys/${segment(key.id)}` })}><p>Requests with it are refused from now on.</p></Doing></td></tr>
            ))}</tbody>
          </table>
        </div>
      )}
      {may("admin") && (
        <p onClickCapture={() => setSecret(fresh())}>
          <Doing label="New key" primary title="A new key" reason="none" done={() => setMade(secret)}
            fields={<>
              <label>Whose<input name="entity" required maxLength={2048} spellcheck={false} placeholder="agent:researcher" /></label>
              <fieldset class="boxes"><legend>May</legend>{PERMISSIONS.map((each) => <label class="inline" key={each}><input type="checkbox" name="may" value={each} defaultChecked={each === "read" || each === "write"} />{each}</label>)}</fieldset>
              <fieldset class="boxes"><legend>In</legend>{SCOPES.map((each) => <label class="inline" key={each}><input type="checkbox" name="in" value={each} defaultChecked />{each}</label>)}</fieldset>
              <label>For<input name="description" maxLength={200} autocomplete="off" /></label>
            </>}
            ask={(_, fields) => ({
              method: "POST", path: "/v1/auth/keys",
              body: { raw_key: secret, entity_uri: String(fields.get("entity")).trim(), permissions: fields.getAll("may"), scopes: fields.getAll("in"), description: String(fields.get("description")) },
            })}>
            <p class="muted">It is made in this page and shown once; the node keeps its hash alone.</p>
          </Doing>
        </p>
      )}
    </div>
  );
};
