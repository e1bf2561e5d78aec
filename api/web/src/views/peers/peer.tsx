// One peer: what it may do here, how far it was replayed, what is held and why, what it signed twice,
// and whether both nodes hold the same.
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { useAnswer, usePolled } from "../../net/answer";
import { segment } from "../../net/send";
import { Empty, Fault, Section } from "../../parts/frame";
import { When } from "../../parts/names";
import { count, kindText, plural, visible } from "../../parts/text";
import { addressOf } from "../../state/place";
import { partition } from "../log/types";
import { Doing } from "../review/actions";
import { Fields } from "./fields";

interface Grants {
  readonly scopes: readonly string[];
  readonly gardens: readonly string[];
  readonly wire: string;
  readonly pull: boolean;
  readonly serve: boolean;
  readonly retract_foreign: boolean;
  readonly resolve_foreign: boolean;
  readonly erase_foreign: boolean;
  readonly instructions: boolean;
}

interface Replay {
  readonly rounds: number;
  readonly pages: number;
  readonly events: number;
  readonly fault: string | null;
  readonly passed_over: readonly string[];
  readonly waiting: Record<string, string>;
  readonly level_at_us: number | null;
}

interface Stream {
  readonly stream: string;
  readonly last_seq: number;
  readonly received_at: string;
  readonly held: boolean;
  readonly reason: string;
}

interface Statement {
  readonly issued_at_us: number;
  readonly heads: readonly { stream: string; stream_seq: number; hash: string }[];
}

interface Evidence {
  readonly position: number;
  readonly stream: string;
  readonly sort: string;
  readonly detail: string;
  readonly earlier: Statement;
  readonly later: Statement;
}

interface Peer {
  readonly node_id: string;
  readonly node_url: string;
  readonly status: string;
  readonly reason: string;
  readonly pubkey_fingerprint: string;
  readonly grants: Grants | null;
  readonly established_at: string | null;
  readonly replay: Replay | null;
  readonly streams: readonly Stream[];
  readonly refused: readonly { stream: string; stream_seq: number; reason: string }[];
  readonly evidence: readonly Evidence[];
}

interface Compared {
  readonly equal: boolean;
  readonly streams: readonly { stream: string; equal: boolean; ours: string | null; theirs: string | null }[];
  readonly tombstones: readonly { node_id: string; equal: boolean; ours: string | null; theirs: string | null }[];
  readonly first_difference: string | null;
}

export const PeerState = ({ id }: { id: string }): JSX.Element => {
  const { data, fault } = usePolled<Peer>({ path: `/v1/federation/peers/${segment(id)}` }, 5);
  const [comparing, setComparing] = useState(false);
  if (fault !== null) return <Fault fault={fault} />;
  if (data === null) return <p class="empty">…</p>;
  return (
    <div class="columns">
      <Section title="What it may do here" aside={<span class="graph-acts">
        {data.status === "pending_verification" && <Doing label="Approve" primary title="Approve this peer" reason="none"
          fields={<label>Fingerprint that its operator told you<input name="print" required spellcheck={false} autocomplete="off" /></label>}
          ask={(_, fields) => ({ method: "POST", path: `/v1/federation/peers/${segment(id)}/approve`, body: { pubkey_fingerprint: String(fields.get("print")).trim() } })} />}
        {data.status === "active" && <Doing label="End the peering" danger title="End the peering" ask={(reason) => ({ method: "POST", path: `/v1/federation/peers/${segment(id)}/revoke`, body: { reason } })} />}
      </span>}>
        {data.grants === null ? <Empty>Nothing yet: it waits for approval.</Empty> : <Granted grants={data.grants} />}
        <Fields of={{ node: data.node_id, since: data.established_at, fingerprint: data.pubkey_fingerprint }} />
        {data.reason && <p class="muted">{visible(data.reason)}</p>}
      </Section>
      <Section title="How far it was replayed"><Lag replay={data.replay} held={data.streams.filter((each) => each.held).length} /></Section>
      <Section title="Streams">
        {data.streams.length === 0 ? <Empty>None has come through it yet.</Empty> : <Streams of={data.streams} id={id} />}
        {data.refused.length > 0 && (
          <>
            <h3>Events that break a rule</h3>
            <p class="muted">They are kept, so that the chain holds, and count for nothing.</p>
            <Table label="Refused events" head={["Stream", "Number", "Why"]}>
              {data.refused.map((each) => <tr key={`${each.stream} ${each.stream_seq}`}><td><StreamName of={each.stream} /></td><td>{count(each.stream_seq)}</td><td>{visible(each.reason)}</td></tr>)}
            </Table>
          </>
        )}
      </Section>
      <Section title="Evidence of two histories">
        {data.evidence.length === 0 ? <Empty>None: it has never signed two different histories.</Empty> : data.evidence.map((each) => <Proof key={each.position} of={each} />)}
      </Section>
      <Section title="Digests" aside={data.status === "active" && <button type="button" onClick={() => setComparing(true)} disabled={comparing}>Compare now</button>}>
        {comparing ? <Digests id={id} /> : <Empty>Asks the peer for the digests of its streams and compares them with those here.</Empty>}
      </Section>
    </div>
  );
};

const RIGHTS: readonly [keyof Grants, string][] = [
  ["pull", "this node takes from it"],
  ["serve", "it may take from this node"],
  ["retract_foreign", "it may end facts of others"],
  ["resolve_foreign", "it may settle conflicts of others"],
  ["erase_foreign", "it may erase facts of others"],
  ["instructions", "its instructions count"],
];

const Granted = ({ grants }: { grants: Grants }): JSX.Element => (
  <>
    <p>Scopes {grants.scopes.map((scope) => <span class="tag" key={scope}>{visible(scope)}</span>)}{grants.gardens.length > 0 && <> and {plural(grants.gardens.length, "garden")}</>}, as {grants.wire === "events" ? "whole streams of events" : "facts of the protocol"}.</p>
    <ul class="rights">
      {RIGHTS.map(([name, words]) => <li key={name}><span class={grants[name] ? "tag good" : "tag"}>{grants[name] ? "yes" : "no"}</span> {words}</li>)}
    </ul>
  </>
);

const Lag = ({ replay, held }: { replay: Replay | null; held: number }): JSX.Element => {
  if (replay === null) return <Empty>It was not replayed since this node started.</Empty>;
  const waiting = Object.entries(replay.waiting);
  return (
    <>
      {replay.fault !== null && <p class="notice bad"><span>{visible(replay.fault)}</span></p>}
      <p>
        {replay.level_at_us === null ? <><span class="tag warn">behind</span> It has not been level since this node started.</>
          : <><span class={replay.fault === null && held === 0 ? "tag good" : "tag warn"}>level</span> This node last had all that the peer offered{held > 0 && <>, but for {plural(held, "held stream")},</>} at <When at={new Date(replay.level_at_us / 1000).toISOString()} exact />.</>}{" "}
        <span class="muted">{plural(replay.events, "event")} in {plural(replay.pages, "page")} since the start, {plural(replay.rounds, "round")}.</span>
      </p>
      {waiting.length > 0 && <ul class="ids">{waiting.map(([stream, reason]) => <li key={stream}><span class="tag warn">waits</span> <StreamName of={stream} />: {visible(reason)}</li>)}</ul>}
      {replay.passed_over.length > 0 && <p class="muted">Offered and not granted: {replay.passed_over.map((each) => visible(partition(each))).join(", ")}</p>}
    </>
  );
};

const Streams = ({ of, id }: { of: readonly Stream[]; id: string }): JSX.Element => (
  <>
    {of.filter((each) => each.held).map((each) => (
      <div class="notice bad held-stream" key={each.stream}>
        <span><strong>{visible(partition(each.stream))} is held.</strong> {visible(each.reason)}</span>
        <Doing label="Release" title="Replay this stream again" ask={(reason) => ({ method: "POST", path: `/v1/federation/peers/${segment(id)}/release`, body: { stream: each.stream, reason } })}>
          <p class="quoted">{visible(each.reason)}</p>
          <p class="muted">Replaying goes on where it stopped. A stream that is still faulty is held again.</p>
        </Doing>
      </div>
    ))}
    <Table label="All streams" head={["Stream", "Events", "Last received", "State"]}>
      {of.map((each) => (
        <tr key={each.stream}>
          <td><StreamName of={each.stream} /></td>
          <td>{count(each.last_seq)}</td>
          <td><When at={each.received_at} exact /></td>
          <td>{each.held ? <span class="tag bad">held</span> : <span class="tag good">replayed</span>}</td>
        </tr>
      ))}
    </Table>
  </>
);

/** Both statements of the peer about the stream, side by side. */
const Proof = ({ of }: { of: Evidence }): JSX.Element => (
  <article class="conflict" aria-label="Evidence">
    <h3><span class="tag bad">{kindText(of.sort)}</span> <StreamName of={of.stream} /> <a href={addressOf("log", { event: String(of.position) })}>event {count(of.position)}</a></h3>
    {of.detail && <p>{visible(of.detail)}</p>}
    <div class="sides">
      {([["signed first", of.earlier], ["signed later", of.later]] as const).map(([words, statement]) => {
        const head = statement.heads.find((each) => each.stream === of.stream);
        return (
          <div class="side-card" key={words}>
            <p><strong>{words}</strong>, <When at={new Date(statement.issued_at_us / 1000).toISOString()} exact /></p>
            {head === undefined ? <p class="muted">without this stream</p> : <p>{plural(head.stream_seq, "event")}, the last with hash <code>{visible(head.hash)}</code></p>}
          </div>
        );
      })}
    </div>
    <details class="raw"><summary>both statements as signed</summary><pre class="json" tabIndex={0}>{visible(JSON.stringify({ earlier: of.earlier, later: of.later })).slice(0, 20_000)}</pre></details>
  </article>
);

const Digests = ({ id }: { id: string }): JSX.Element => {
  const { data, fault } = useAnswer<Compared>({ path: `/v1/federation/peers/${segment(id)}/compare` });
  if (fault !== null) return <Fault fault={fault} />;
  if (data === null) return <p class="empty">…</p>;
  const rows = [
    ...data.streams.map((each) => ({ ...each, name: <StreamName of={each.stream} /> })),
    ...data.tombstones.map((each) => ({ ...each, name: <>tombstones of {visible(each.node_id)}</> })),
  ];
  return (
    <>
      <p class={data.equal ? "notice good" : "notice warn"} role="status"><span>{data.equal ? "Both hold the same." : <>They differ first in {visible(partition(data.first_difference ?? "?"))}.</>}</span></p>
      {rows.length > 0 && (
        <Table label="All digests" head={["What", "Here", "There", ""]}>
          {rows.map((each, place) => (
            <tr key={place}><td>{each.name}</td><td><Digest of={each.ours} /></td><td><Digest of={each.theirs} /></td><td><span class={each.equal ? "tag good" : "tag warn"}>{each.equal ? "equal" : "different"}</span></td></tr>
          ))}
        </Table>
      )}
    </>
  );
};

const Digest = ({ of }: { of: string | null }): JSX.Element => (of === null ? <span class="muted">not taken</span> : <code title={visible(of)}>{visible(of).slice(0, 16)}</code>);

/** The part of a stream's name that says what is in it; whose it is shows on hover. */
const StreamName = ({ of }: { of: string }): JSX.Element => (
  <a href={addressOf("log", { stream: of })} title={visible(of)}><bdi>{visible(partition(of))}</bdi></a>
);

const Table = ({ label, head, children }: { label: string; head: readonly string[]; children: ComponentChildren }): JSX.Element => (
  <div class="scroll" tabIndex={0} role="region" aria-label={label}>
    <table class="table">
      <thead><tr>{head.map((each) => <th scope="col" key={each}>{each || <span class="unseen">state</span>}</th>)}</tr></thead>
      <tbody>{children}</tbody>
    </table>
  </div>
);
