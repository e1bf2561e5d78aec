// Conflicts with both sides; settling one shows at once. The log keeps every resolution, so undoing
// one states the side that lost again: the conflict is then open again, and both steps can be seen.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { usePages, written } from "../../net/answer";
import { Refused, segment, send, type Ask } from "../../net/send";
import type { Conflict, ConflictPage, Fact } from "../../net/types";
import { Empty, Fault } from "../../parts/frame";
import { Name, NameText, Relation, When } from "../../parts/names";
import { Rows } from "../../parts/rows";
import { visible } from "../../parts/text";
import { addressOf, amend, at, param } from "../../state/place";
import { may } from "../../state/session";
import { Stated } from "../entity";
import { Doing, Saying, statingAgain, useTaken, type Meanwhile } from "./actions";

/** About as high as one is, in pixels. */
const CONFLICT = 320;

interface Settled {
  readonly conflict: Conflict;
  readonly winner: string | null;
  /** Whether the node has said yes. */
  readonly done: boolean;
}

export const Conflicts = ({ ask }: { ask: Ask }): JSX.Element => {
  const found = usePages<ConflictPage, Conflict>(ask, (page, asked) => ({
    rows: page.conflicts, total: null,
    next: page.cursor === null ? null : { ...asked, query: { ...asked.query, cursor: page.cursor } },
  }));
  const [settled, setSettled] = useState<readonly Settled[]>([]);
  const [fault, setFault] = useState<Refused | null>(null);
  const { taken, take } = useTaken(found.round);
  const [opened, setOpened] = useState<{ round: number; conflicts: readonly Conflict[] }>({ round: 0, conflicts: [] });
  const status = param("status") || "unresolved";

  const settle = async (conflict: Conflict, winner: Fact, reason: string): Promise<void> => {
    const { conflict_id: id } = conflict;
    const answered = take(id);
    setSettled((before) => [...before, { conflict, winner: winner.id, done: false }]);
    try {
      await send({
        method: "POST", path: `/v1/conflicts/${segment(id)}/resolve`,
        body: { winning_fact_id: winner.id, resolution_note: reason },
      });
    } catch (error) {
      answered(false);
      setSettled((before) => before.filter((each) => each.conflict.conflict_id !== id));
      throw error;
    }
    answered(true);
    setSettled((before) => before.map((each) => (each.conflict.conflict_id === id ? { ...each, done: true } : each)));
    written.value++;
  };
  const undo = async (each: Settled): Promise<void> => {
    const { fact_a: newer, fact_b: older } = each.conflict;
    const lost = each.winner === newer.id ? older : newer;
    setFault(null);
    setSettled((before) => before.filter((one) => one !== each));
    // It comes back as a conflict of the new statement: until then it is here to be read.
    setOpened({ round: found.round, conflicts: [{ ...each.conflict, conflict_id: `again ${each.conflict.conflict_id}`, status: "opening" }] });
    try {
      await send(statingAgain(lost, lost.id, "stated again, as the resolution is taken back"));
      written.value++;
    } catch (error) {
      setOpened({ round: 0, conflicts: [] });
      setSettled((before) => [...before, each]);
      setFault(error instanceof Refused ? error : new Refused(0, "", String(error)));
    }
  };
  const rows = [...(status === "unresolved" && opened.round === found.round ? opened.conflicts : []), ...(found.data ?? [])];
  const none = found.data !== null && rows.every(({ conflict_id }) => taken.has(conflict_id));
  return (
    <div class="columns">
      <div class="choices" role="group" aria-label="Status">
        {["unresolved", "resolved"].map((each) => <button type="button" key={each} aria-pressed={status === each} onClick={() => amend({ status: each })}>{each}</button>)}
      </div>
      <Fault fault={found.fault ?? fault} />
      {settled.map((each) => (
        <p class="notice good settled-note" key={each.conflict.conflict_id} role="status">
          <span><NameText uri={each.conflict.fact_a.entity} /> <Relation name={each.conflict.fact_a.relation} /> {each.done ? "is settled." : "is being settled…"}</span>
          {each.done && <button type="button" class="quiet" onClick={() => void undo(each)} title="States the other side again, so that the conflict is open again">Undo</button>}
        </p>
      ))}
      {none && <Empty>{status === "unresolved" ? "No conflict is open. Sources agree, or their conflicts are settled." : "None was settled yet."}</Empty>}
      <Rows rows={rows} label="Conflicts" height={CONFLICT} measured more={found.more} keyOf={({ conflict_id }) => conflict_id} taken={taken}
        draw={(conflict) => <OneConflict conflict={conflict} settle={settle} meanwhile={() => take(conflict.conflict_id)} />} />
    </div>
  );
};

interface OneProps {
  readonly conflict: Conflict;
  /** Throws if the node refuses. */
  readonly settle: (conflict: Conflict, winner: Fact, reason: string) => Promise<void>;
  readonly meanwhile: Meanwhile;
}

const OneConflict = ({ conflict, settle, meanwhile }: OneProps): JSX.Element => {
  const { fact_a: newer, fact_b: older } = conflict;
  const open = conflict.status === "unresolved" && may("write") && at.value === "";
  const [reason, setReason] = useState("");
  const [fault, setFault] = useState<Refused | null>(null);
  const keep = (fact: Fact): void => {
    setFault(null);
    settle(conflict, fact, reason.trim()).catch((error: unknown) => setFault(error instanceof Refused ? error : new Refused(0, "", String(error))));
  };
  return (
    <article class="conflict" aria-label="Conflict">
      <h2><Name uri={newer.entity} /> <Relation name={newer.relation} /></h2>
      <p class="muted">noticed <When at={conflict.detected_at} exact />{conflict.resolved_by && <>, <a href={addressOf("fact", { id: conflict.resolved_by })}>settled</a></>}{conflict.resolution_note && <>: <bdi>{visible(conflict.resolution_note)}</bdi></>}</p>
      <Fault fault={fault} />
      <div class="sides">
        {[newer, older].map((fact) => (
          <div key={fact.id} class={`side-card${conflict.winning_fact_id === fact.id ? " won" : conflict.winning_fact_id ? " lost" : ""}`}>
            <Stated fact={{ ...fact, contradicted: false }} />
            {conflict.winning_fact_id === fact.id && <span class="tag good">kept</span>}
            {conflict.winning_fact_id != null && conflict.winning_fact_id !== fact.id && may("write") && at.value === "" && (
              <Doing label="State it again" title="State this side again" meanwhile={meanwhile} ask={(reason) => statingAgain(fact, fact.id, reason || "stated again, as the resolution is taken back")}>
                <Saying fact={fact} />
                <p class="muted">It takes the resolution back: the conflict is open again, and both steps stay in the log.</p>
              </Doing>
            )}
            {open && <button type="button" class="primary" onClick={() => keep(fact)}>Keep this one</button>}
          </div>
        ))}
      </div>
      {open && (
        <div class="form-line">
          <label class="grow">Reason <input value={reason} onInput={(event) => setReason(event.currentTarget.value)} maxLength={1000} autocomplete="off" placeholder="goes into the log with the resolution" /></label>
          <NewValue conflict={conflict} meanwhile={meanwhile} />
        </div>
      )}
    </article>
  );
};

/** Neither of them: a third value. */
const NewValue = ({ conflict, meanwhile }: { conflict: Conflict; meanwhile: Meanwhile }): JSX.Element => {
  const { type } = conflict.fact_a.value;
  return (
    <Doing label="Neither" title="Neither of them holds" reason="free" meanwhile={meanwhile}
      fields={<label>What holds instead<input name="value" required maxLength={4000} autocomplete="off" /></label>}
      ask={(note, fields) => {
        const text = String(fields.get("value")).trim();
        const number = type === "number" && text !== "" && Number.isFinite(Number(text));
        return {
          method: "POST", path: `/v1/conflicts/${segment(conflict.conflict_id)}/resolve`,
          body: { new_value: number ? { type: "number", v: Number(text) } : { type: type === "number" ? "string" : type, v: text }, resolution_note: note },
        };
      }}>
      <Saying fact={conflict.fact_a} />
      <Saying fact={conflict.fact_b} />
    </Doing>
  );
};
