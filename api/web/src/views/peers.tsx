// Other nodes: how far each is followed, what it may do here, what is held, and what it denied.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useAnswer, usePolled } from "../net/answer";
import { segment, type Ask } from "../net/send";
import { Empty, Fault, Section, View } from "../parts/frame";
import { NameText, When } from "../parts/names";
import { count, kindText, visible } from "../parts/text";
import { addressOf, param } from "../state/place";
import { may } from "../state/session";
import { Doing } from "./review/actions";

interface Peer {
  readonly peer_id: string;
  readonly node_id: string;
  readonly node_url: string;
  readonly status: string;
  readonly allowed_scopes?: readonly string[];
}

interface PeerDetail extends Peer {
  readonly reason: string;
  readonly pubkey_fingerprint: string;
  readonly grants: Record<string, unknown> | null;
  readonly established_at: string | null;
  readonly replay: Record<string, unknown> | null;
  readonly streams: readonly Record<string, unknown>[];
  readonly evidence: readonly Record<string, unknown>[];
}

interface Comparison {
  readonly equal: boolean;
  readonly streams: readonly Record<string, unknown>[];
  readonly tombstones: readonly Record<string, unknown>[];
  readonly first_difference: string | null;
}

interface Pulls {
  readonly pulls: readonly Record<string, unknown>[];
}

export const PeersView = (): JSX.Element => {
  const ask: Ask = { path: "/v1/federation/peers" };
  const pullsAsk: Ask = { path: "/v1/federation/pulls" };
  const { data, fault } = usePolled<{ peers: readonly Peer[] }>(ask, 5);
  const pulls = usePolled<Pulls>(pullsAsk, 5);
  const chosen = param("peer");
  const own: Ask = { path: "/v1/federation/declaration" };
  const declaration = useAnswer<Record<string, unknown>>(own);
  return (
    <View title="Peers" asks={[ask, pullsAsk, own, chosen ? { path: `/v1/federation/peers/${segment(chosen)}` } : null]} lead="Nodes that replay each other's logs, and how far each has come">
      <Fault fault={fault} />
      {data?.peers.length === 0 && <Empty>No peer is declared. <code>engramlog peer add URL</code> begins a peering; the fingerprint below is what the other operator needs.</Empty>}
      {(data?.peers.length ?? 0) > 0 && (
        <ul class="cards">
          {data?.peers.map((peer) => (
            <li key={peer.peer_id}>
              <a class="card" href={addressOf("peers", { peer: peer.peer_id })} aria-current={peer.peer_id === chosen ? "true" : undefined}>
                <span class="card-name"><bdi>{visible(peer.node_url || peer.node_id)}</bdi></span>
                <span><span class={peer.status === "active" ? "tag good" : peer.status === "revoked" ? "tag bad" : "tag warn"}>{kindText(peer.status)}</span></span>
                <span class="card-foot">{visible(peer.node_id)}</span>
              </a>
            </li>
          ))}
        </ul>
      )}
      {(pulls.data?.pulls.length ?? 0) > 0 && <Section title="How far each is pulled"><Rows label="Pulls" rows={pulls.data?.pulls ?? []} /></Section>}
      {chosen !== "" && may("admin") && <Detail id={chosen} />}
      {chosen !== "" && !may("admin") && <Empty>A peer's grants and streams are for admins.</Empty>}
      <Section title="This node">
        <Fault fault={declaration.fault} />
        {declaration.data !== null && <Own of={declaration.data} />}
      </Section>
    </View>
  );
};

/** What another operator needs first; keys and signatures behind it. */
const Own = ({ of }: { of: Record<string, unknown> }): JSX.Element => {
  const first = ["pubkey_fingerprint", "node_url", "node_id", "allowed_scopes"].filter((name) => name in of);
  const rest = Object.keys(of).filter((name) => !first.includes(name));
  const chosen = (names: readonly string[]): Record<string, unknown> => Object.fromEntries(names.map((name) => [name, of[name]]));
  return (
    <>
      <Fields of={chosen(first)} />
      {rest.length > 0 && <details class="raw"><summary>{rest.map(kindText).join(", ")}</summary><Fields of={chosen(rest)} /></details>}
    </>
  );
};

const Detail = ({ id }: { id: string }): JSX.Element => {
  const { data, fault } = usePolled<PeerDetail>({ path: `/v1/federation/peers/${segment(id)}` }, 5);
  const [comparing, setComparing] = useState(false);
  if (fault !== null) return <Fault fault={fault} />;
  if (data === null) return <p class="empty">…</p>;
  const held = data.streams.filter((stream) => stream["held"]);
  return (
    <div class="columns">
      <Section title="Grants" aside={<span class="graph-acts">
        {data.status === "pending_approval" && <Doing label="Approve" primary title="Approve this peer" reason="none"
          fields={<label>Fingerprint that its operator told you<input name="print" required spellcheck={false} autocomplete="off" /></label>}
          ask={(_, fields) => ({ method: "POST", path: `/v1/federation/peers/${segment(id)}/approve`, body: { pubkey_fingerprint: String(fields.get("print")).trim() } })} />}
        {data.status === "active" && <Doing label="End the peering" danger title="End the peering" ask={(reason) => ({ method: "POST", path: `/v1/federation/peers/${segment(id)}/revoke`, body: { reason } })} />}
      </span>}>
        <Fields of={{ status: data.status, fingerprint: data.pubkey_fingerprint, since: data.established_at, ...data.grants }} />
        {data.reason && <p class="muted">{visible(data.reason)}</p>}
      </Section>
      <Section title="Replay">{data.replay === null ? <Empty>It is not pulled.</Empty> : <Fields of={data.replay} />}</Section>
      <Section title="Streams">
        {data.streams.length === 0 && <Empty>None has come through it yet.</Empty>}
        {held.map((stream) => (
          <p class="notice bad" key={String(stream["stream"])}><span>Held: {visible(String(stream["stream"]))}{stream["reason"] ? `: ${visible(String(stream["reason"]))}` : ""}</span>
            <Doing label="Release" title="Replay this stream again" ask={(reason) => ({ method: "POST", path: `/v1/federation/peers/${segment(id)}/release`, body: { stream: String(stream["stream"]), reason } })} /></p>
        ))}
        {data.streams.length > 0 && <Rows label="Streams" rows={data.streams} />}
      </Section>
      <Section title="Evidence of two histories">
        {data.evidence.length === 0 ? <Empty>None: it has never signed two different histories.</Empty> : <Rows label="Evidence" rows={data.evidence} />}
      </Section>
      <Section title="Digests" aside={<button type="button" onClick={() => setComparing(true)}>Compare now</button>}>
        {comparing ? <Compared id={id} /> : <Empty>Asks the peer for the digests of its streams and compares them with those here.</Empty>}
      </Section>
    </div>
  );
};

const Compared = ({ id }: { id: string }): JSX.Element => {
  const { data, fault } = useAnswer<Comparison>({ path: `/v1/federation/peers/${segment(id)}/compare` });
  if (fault !== null) return <Fault fault={fault} />;
  if (data === null) return <p class="empty">…</p>;
  return (
    <>
      <p class={data.equal ? "notice good" : "notice warn"}>{data.equal ? "Both hold the same." : `They differ first in ${visible(data.first_difference ?? "?")}.`}</p>
      <Rows label="Digests" rows={data.streams} />
      <Rows label="Tombstones" rows={data.tombstones} />
    </>
  );
};

const Cell = ({ name, value }: { name: string; value: unknown }): JSX.Element => {
  if (value === null || value === undefined || value === "") return <span class="muted">–</span>;
  if (typeof value === "number") return <span class="figure">{count(value)}</span>;
  if (typeof value === "boolean") return <span class={value ? "tag good" : "tag"}>{value ? "yes" : "no"}</span>;
  if (typeof value === "string" && /_at$|^since$|^at$/.test(name) && !Number.isNaN(Date.parse(value))) return <When at={value} exact />;
  if (typeof value === "string") return /^stigmem:/.test(value) ? <NameText uri={value} /> : <bdi>{visible(value).slice(0, 300)}</bdi>;
  if (Array.isArray(value) && value.every((each) => typeof each !== "object")) return <bdi>{value.length ? visible(value.join(", ")).slice(0, 300) : "none"}</bdi>;
  return <code>{visible(JSON.stringify(value)).slice(0, 300)}</code>;
};

const Fields = ({ of }: { of: Record<string, unknown> }): JSX.Element => (
  <dl class="record flat">{Object.entries(of).map(([name, value]) => <div key={name}><dt>{kindText(name)}</dt><dd><Cell name={name} value={value} /></dd></div>)}</dl>
);

const Rows = ({ rows, label }: { rows: readonly Record<string, unknown>[]; label: string }): JSX.Element => {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))].slice(0, 10);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class="table">
        <thead><tr>{columns.map((column) => <th scope="col" key={column}>{kindText(column)}</th>)}</tr></thead>
        <tbody>{rows.slice(0, 500).map((row, place) => <tr key={place}>{columns.map((column) => <td key={column}><Cell name={column} value={row[column]} /></td>)}</tr>)}</tbody>
      </table>
    </div>
  );
};
