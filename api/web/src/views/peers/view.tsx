// Other nodes: how far each is followed, what it may do here, what is held, and what it denied.
import type { JSX } from "preact";
import { useAnswer, usePolled } from "../../net/answer";
import { segment, type Ask } from "../../net/send";
import { Empty, Fault, Section, View } from "../../parts/frame";
import { kindText, plural, visible } from "../../parts/text";
import { addressOf, param } from "../../state/place";
import { may } from "../../state/session";
import { Fields } from "./fields";
import { PeerState } from "./peer";

interface Peer {
  readonly peer_id: string;
  readonly node_id: string;
  readonly node_url: string;
  readonly status: string;
  readonly allowed_scopes?: readonly string[];
  readonly fault: string | null;
}

interface Pulls {
  readonly pulls: readonly {
    node_id: string; active: boolean; received: number; accepted: number; refused: number; held: string | null; fault: string | null;
    refusals: readonly { fact_id: string; code: string; position: number }[];
  }[];
}

export const PeersView = (): JSX.Element => {
  const ask: Ask = { path: "/v1/federation/peers" };
  const pullsAsk: Ask = { path: "/v1/federation/pulls" };
  const { data, fault } = usePolled<{ peers: readonly Peer[] }>(ask, 5);
  const pulls = usePolled<Pulls>(pullsAsk, 5);
  const chosen = param("peer");
  const at = data?.peers.find((peer) => peer.peer_id === chosen)?.node_id;
  const pulled = pulls.data?.pulls.filter((each) => each.node_id === at) ?? [];
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
                {peer.fault !== null && <span class="card-foot">{visible(peer.fault)}</span>}
              </a>
            </li>
          ))}
        </ul>
      )}
      {chosen !== "" && pulled.map((each) => (
        <Section key={each.node_id} title="Facts taken by the protocol">
          <p>{plural(each.received, "fact")} received, {plural(each.accepted, "fact")} taken, {plural(each.refused, "fact")} refused.{!each.active && " It is not asked at present."}</p>
          {(each.fault ?? each.held) !== null && <p class="notice bad"><span>{visible(each.fault ?? each.held ?? "")}</span></p>}
          {each.refusals.length > 0 && <ul class="ids">{each.refusals.map((one) => <li key={one.position}><a href={addressOf("log", { event: String(one.position) })}>{kindText(one.code)}</a> <code>{visible(one.fact_id)}</code></li>)}</ul>}
        </Section>
      ))}
      {chosen !== "" && may("admin") && <PeerState key={chosen} id={chosen} />}
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
