// What an event did: the rows of each projection that it changed, and what an erasure removed.
import type { JSX } from "preact";
import type { Fact } from "../../net/types";
import { NameText, Relation, valueText } from "../../parts/names";
import { count, kindText, plural, visible } from "../../parts/text";
import { addressOf } from "../../state/place";
import { keptParams } from "./view";
import type { ChangedRow, EventErasure, ReadBy } from "./types";

const said = (name: string): string => name.replaceAll("_", " ");

export const Effects = ({ readBy, facts }: { readBy: readonly ReadBy[]; facts: readonly Fact[] }): JSX.Element => {
  const quiet = readBy.filter((each) => each.changed === 0 && each.words === null && each.applied);
  const shown = readBy.filter((each) => each.changed > 0 || !each.applied);
  const told = new Map<string, string[]>();
  for (const { projection, changed, applied, words } of readBy)
    if (changed === 0 && applied && words !== null) told.set(words, [...(told.get(words) ?? []), said(projection)]);
  return (
    <>
      {shown.length + told.size > 0 && (
        <dl class="effects" aria-label="Rows of each projection">
          {shown.map((each) => (
            <div key={each.projection}>
              <dt>{said(each.projection)} <span class="muted">{each.applied ? each.changed > 0 && plural(each.changed, "row") : "not applied yet"}</span></dt>
              {each.rows.map((row, place) => <dd key={place}><Row row={row} facts={facts} /></dd>)}
              {each.changed > each.rows.length && <dd class="muted">and {count(each.changed - each.rows.length)} more</dd>}
              {each.words !== null && <dd class="muted">{each.words}</dd>}
            </div>
          ))}
          {[...told].map(([words, names]) => <div key={words}><dt>{names.join(", ")}</dt><dd class="muted">{words}</dd></div>)}
        </dl>
      )}
      {readBy.length === 0 && <p class="muted">No projection reads this kind.</p>}
      {quiet.length > 0 && <p class="muted">Read without a row of today's tables to show: {quiet.map((each) => said(each.projection)).join(", ")}.</p>}
    </>
  );
};

const Row = ({ row, facts }: { row: ChangedRow; facts: readonly Fact[] }): JSX.Element => {
  const key = Object.values(row.key).filter((value) => value !== null && value !== "");
  return (
    <>
      <span class={row.change === "written" ? "tag good" : row.change === "ended" ? "tag warn" : "tag"}>{row.change}</span>{" "}
      <span>{said(row.table)}</span>{" "}
      {key.length > 0 && <bdi>{key.map((value) => visible(String(value)).slice(0, 200)).join(", ")}</bdi>}
      {row.fact_ids.map((id) => <span key={id}> <FactName id={id} fact={facts.find((each) => each.id === id)} /></span>)}
    </>
  );
};

const FactName = ({ id, fact }: { id: string; fact: Fact | undefined }): JSX.Element => (
  <a class="plain" href={addressOf("fact", { id })}>
    {fact === undefined ? <code>{visible(id).slice(0, 13)}…</code>
      : <><NameText uri={fact.entity} /> <Relation name={fact.relation} /> <bdi>{valueText(fact.value).slice(0, 60)}</bdi></>}
  </a>
);

const STATE: Record<EventErasure["status"], string> = {
  waiting: "from a peer, not applied here",
  cleaning: "files are being cleaned",
  clean: "nothing is left in any file",
};

/** What an erasure took, by name and number alone. */
export const Erasure = ({ erasure, position }: { erasure: EventErasure; position: number }): JSX.Element => {
  const own = erasure.removed.length > 0 || erasure.fact_ids.length > 0;
  return (
    <div class="erasure" aria-label="Erasure">
      <p>
        <span class={erasure.status === "clean" ? "tag good" : "tag warn"}>{STATE[erasure.status]}</span>{" "}
        The erasure <a href={addressOf("review", { tab: "erasures" })}><code>{visible(erasure.erasure_id)}</code></a> removed{" "}
        {plural(erasure.facts, "fact")} and the payloads of {plural(erasure.events, "event")}, asked for by <NameText uri={erasure.actor} />. Reason: {visible(erasure.reason)}.
        {erasure.position !== position && <> It is <a href={addressOf("log", keptParams({ event: String(erasure.position) }))}>event {count(erasure.position)}</a>.</>}
      </p>
      {own && <p class="muted">By this event, the payloads of</p>}
      <ol class="path flat">
        {erasure.removed.map((each) => (
          <li key={each.position}><a href={addressOf("log", keptParams({ event: String(each.position) }))}>{kindText(each.kind)} {count(each.position)}</a></li>
        ))}
      </ol>
      {erasure.fact_ids.length > 0 && (
        <details class="raw">
          <summary>ids of erased facts</summary>
          <ul class="ids">{erasure.fact_ids.map((id) => <li key={id}><code>{visible(id)}</code></li>)}</ul>
        </details>
      )}
    </div>
  );
};
