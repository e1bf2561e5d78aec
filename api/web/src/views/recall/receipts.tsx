// Receipts: what was asked and returned, and each asked again to see what moved since.
import type { JSX } from "preact";
import { usePages, useAnswer } from "../../net/answer";
import { segment, type Ask } from "../../net/send";
import { Empty, Fault } from "../../parts/frame";
import { Name, NameText, Relation, Value, When } from "../../parts/names";
import { count, plural, visible } from "../../parts/text";
import { Rows } from "../../parts/rows";
import { addressOf, param } from "../../state/place";
import { FACT_ROW } from "../search";
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
        <Rows rows={found.data} label="Receipts of recalls, newest first" height={FACT_ROW} more={found.more} keyOf={(each) => each.receipt_id}
          draw={(each) => (
            <div class={each.receipt_id === chosen ? "fact chosen" : "fact"}>
              <div class="fact-says"><a href={addressOf("recall", { q: each.query, profile: each.profile })} title={visible(each.query)}><bdi>{visible(each.query).slice(0, 160)}</bdi></a></div>
              <div class="fact-foot">
                <a href={addressOf("recall", { receipt: each.receipt_id })}>replay</a>
                <When at={each.answered_at} exact /><span>as of event {count(each.moment.position)}, <When at={each.moment.instant} /></span><span>{plural(each.returned.length, "fact")}</span><span>{visible(each.profile)}</span>
                <span class="source">asked by <NameText uri={each.principal} /></span>
              </div>
            </div>
          )} />
      )}
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
