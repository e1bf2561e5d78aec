// Receipts: what was asked and returned, and each asked again to see what moved since.
import type { JSX } from "preact";
import { usePages, useAnswer } from "../../net/answer";
import { segment, type Ask } from "../../net/send";
import { Empty, Fault } from "../../parts/frame";
import { Name, NameText, Relation, Value, When } from "../../parts/names";
import { count, plural, visible } from "../../parts/text";
import { addressOf, param } from "../../state/place";
import type { Receipt, Replay } from "./types";

interface ReceiptPage {
  readonly receipts: readonly Receipt[];
  readonly cursor: string | null;
}

export const RECEIPTS: Ask = { path: "/v1/recall/receipts", query: { limit: 20 } };

export const Receipts = (): JSX.Element => {
  const found = usePages<ReceiptPage, Receipt>(RECEIPTS, (page, asked) => ({
    rows: page.receipts, total: null,
    next: page.cursor === null ? null : { ...asked, query: { ...asked.query, cursor: page.cursor } },
  }));
  const chosen = param("receipt");
  return (
    <>
      {chosen !== "" && <Replayed id={chosen} />}
      <Fault fault={found.fault} />
      {found.data?.length === 0 && <Empty>No recall has left a receipt yet. Each one leaves one, in the log within half a minute.</Empty>}
      {found.data !== null && found.data.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Receipts of recalls">
          <table class="table">
            <thead><tr><th scope="col">Question</th><th scope="col">Asked by</th><th scope="col">Profile</th><th scope="col" class="number">Facts</th><th scope="col">Answered</th><th scope="col"><span class="unseen">Replay</span></th></tr></thead>
            <tbody>{found.data.map((each) => (
              <tr key={each.receipt_id} class={each.receipt_id === chosen ? "chosen" : ""}>
                <td><a href={addressOf("recall", { q: each.query, profile: each.profile })}><bdi>{visible(each.query).slice(0, 160)}</bdi></a></td>
                <td><NameText uri={each.principal} /></td><td>{visible(each.profile)}</td>
                <td class="number">{count(each.returned.length)}</td><td><When at={each.answered_at} exact /></td>
                <td><a href={addressOf("recall", { receipt: each.receipt_id })}>replay</a></td>
              </tr>
            ))}</tbody>
          </table>
        </div>
      )}
      {found.more !== null && <button type="button" onClick={found.more}>Older</button>}
    </>
  );
};

const Replayed = ({ id }: { id: string }): JSX.Element => {
  const ask: Ask = { method: "POST", path: `/v1/recall/receipts/${segment(id)}/replay` };
  const { data, fault } = useAnswer<Replay>(ask);
  if (fault !== null) return <Fault fault={fault} />;
  if (data === null) return <p class="empty" role="status">…</p>;
  return (
    <div class="statement">
      <p class="statement-says"><bdi>{visible(data.query)}</bdi></p>
      <p>
        <span class={data.then.faithful ? "tag good" : "tag warn"}>{data.then.faithful ? "then: as recorded" : "then: not quite as recorded"}</span>{" "}
        {data.then.reasons.map((reason) => <span class="muted" key={reason}>{visible(reason)} </span>)}
      </p>
      <p class="muted">Then <When at={data.then.moment.instant} exact />, now <When at={data.now.moment.instant} exact />: {["same", "moved", "gone", "new"].map((change) => `${plural(data.counts[change] ?? 0, "fact")} ${change}`).join(", ")}</p>
      <ol class="replayed">
        {data.facts.map((each) => (
          <li key={each.fact_id} class={`replay-${each.change}`}>
            <span class="rank">{each.rank_then ?? "–"}</span><span aria-label="now">→</span><span class="rank">{each.rank_now ?? "–"}</span>
            <span class={`tag ${each.change === "same" ? "" : each.change === "gone" ? "bad" : each.change === "new" ? "good" : "warn"}`}>{each.change}</span>
            {each.fact === null ? <code>{each.fact_id}</code> : <span><Name uri={each.fact.entity} /> <Relation name={each.fact.relation} /> <Value value={each.fact.value} /></span>}
          </li>
        ))}
      </ol>
    </div>
  );
};
