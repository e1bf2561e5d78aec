// Writes from the page: each asks for a reason, shows at once, and says what the node made of it.
import type { ComponentChildren, JSX, TargetedSubmitEvent } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { written } from "../../net/answer";
import { Refused, segment, send, type Ask } from "../../net/send";
import type { Fact } from "../../net/types";
import { addressOf } from "../../state/place";
import { Icon } from "../../parts/icons";
import { NameText, Relation, valueText } from "../../parts/names";
import { visible } from "../../parts/text";

interface DoingProps {
  /** The words on the button and at the top of the form. */
  readonly label: string;
  readonly title: string;
  readonly danger?: boolean;
  readonly primary?: boolean;
  readonly children?: ComponentChildren;
  /** Fields beside the reason, read by name when it is sent. */
  readonly fields?: ComponentChildren;
  readonly reason?: "needed" | "none" | "free";
  readonly ask: (reason: string, fields: FormData) => Ask;
  readonly done?: (answer: unknown) => void;
  /** Shows what it will have done as soon as it is sent. Only for acts that can be undone. */
  readonly meanwhile?: Meanwhile;
}

/** Begins to show an act before the node has answered; what it gives back is called with the answer. */
export type Meanwhile = (reason: string, fields: FormData) => (agreed: boolean) => void;

interface Taking {
  readonly taken: ReadonlySet<string>;
  readonly take: (id: string) => (agreed: boolean) => void;
}

/** Rows that acts take off a list before the node has said yes. After its yes they stay off until the
 * list has been read again, which `of` tells; after a no they come back. */
export const useTaken = (of: unknown): Taking => {
  const [acts, setActs] = useState<readonly { id: string; agreed: boolean; of: unknown }[]>([]);
  const now = useRef(of);
  now.current = of;
  return {
    taken: new Set(acts.filter((act) => !act.agreed || act.of === of).map(({ id }) => id)),
    take: (id) => {
      setActs((before) => [...before.filter((act) => act.id !== id), { id, agreed: false, of: null }]);
      return (agreed) => setActs((before) => before.flatMap((act) => (act.id !== id ? [act] : agreed ? [{ id, agreed, of: now.current }] : [])));
    },
  };
};

/** A button that opens a form with the reason and what will happen, and then writes. The form closes
 * at once, and comes back as it was filled in if the node refuses. */
export const Doing = ({ label, title, danger = false, primary = false, children, fields, reason = "free", ask, done, meanwhile }: DoingProps): JSX.Element => {
  const dialog = useRef<HTMLDialogElement>(null);
  const [fault, setFault] = useState<Refused | null>(null);
  const [sending, setSending] = useState(false);
  /** From the moment it is sent until the node has said yes or no. */
  const sent = useRef(false);
  const [open, setOpen] = useState(false);
  useEffect(() => {
    if (open) dialog.current?.querySelector<HTMLElement>("input, select")?.focus();
  }, [open, fault]);
  const submit = async (event: TargetedSubmitEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    sent.current = true;
    setSending(true);
    setFault(null);
    const reason = String(given.get("reason") ?? "").trim();
    let settle: ReturnType<Meanwhile> | undefined;
    try {
      const request = ask(reason, given);
      dialog.current?.close();
      settle = meanwhile?.(reason, given);
      const answer = await send(request);
      settle?.(true);
      setOpen(false);
      done?.(answer);
      written.value++;
    } catch (error) {
      settle?.(false);
      setFault(error instanceof Refused ? error : new Refused(0, "", String(error)));
      if (dialog.current?.open === false) dialog.current.showModal();
    } finally {
      sent.current = false;
      setSending(false);
    }
  };
  return (
    <>
      <button type="button" class={danger ? "danger" : primary ? "primary" : ""} onClick={() => { if (sending) return; setFault(null); setOpen(true); dialog.current?.showModal(); }}>{label}{sending && "…"}</button>
      <dialog class="sheet small" ref={dialog} aria-label={title} onClose={() => { if (!sent.current) setOpen(false); }}>
        {open && <><div class="sheet-head">
          <h2>{title}</h2>
          <button type="button" class="tool" onClick={() => dialog.current?.close()}><Icon name="close" size={16} /> Close</button>
        </div>
        <form class="fields" onSubmit={(event) => void submit(event)}>
          {children}
          {fields}
          {reason !== "none" && (
            <label>Reason{reason === "free" && <span class="muted"> (optional)</span>}
              <input name="reason" required={reason === "needed"} maxLength={1000} autocomplete="off" />
            </label>
          )}
          {fault !== null && <p class="notice bad" role="alert"><span>{visible(fault.message)}</span></p>}
          <button class={danger ? "danger" : "primary"} disabled={sending}>{label}</button>
        </form></>}
      </dialog>
    </>
  );
};

/** The request that states a fact once more, elsewhere if so asked, after `retracted` ended with a
 * reason. Both or neither happen. */
export const statingAgain = (fact: Fact, retracted: string | null, reason: string, garden = fact.garden_id): Ask => {
  const { entity, relation, value, source, scope, valid_from, valid_until, confidence, attributes, derived_from } = fact;
  if (fact.sanitizer_redacted) throw new Refused(0, "", "The sanitizer changed what is shown of this fact, so it cannot be stated again from here.");
  return {
    method: "POST", path: "/v1/facts/batch", query: { atomic: true },
    body: [
      ...(retracted === null ? [] : [{ op: "retract", id: retracted, reason }]),
      { op: "assert", entity, relation, value, source, scope, valid_from, valid_until, garden_id: garden, confidence, attributes, derived_from },
    ],
  };
};

export const Saying = ({ fact }: { fact: Fact }): JSX.Element => (
  <p class="quoted"><NameText uri={fact.entity} /> <Relation name={fact.relation} /> <bdi>{valueText(fact.value)}</bdi></p>
);

export interface ActProps {
  readonly fact: Fact;
  readonly meanwhile: Meanwhile;
}

export const Retract = ({ fact, meanwhile }: ActProps): JSX.Element => (
  <Doing label="Retract" title="Retract this fact" meanwhile={meanwhile} ask={(reason) => ({
    method: "POST", path: `/v1/facts/${segment(fact.id)}/retract`, body: reason ? { reason } : {},
  })}>
    <Saying fact={fact} />
    <p class="muted">It ends now; the past keeps it. <a href={addressOf("fact", { id: fact.id })}>Its history</a> will say who retracted it and why.</p>
  </Doing>
);

/** Take a retraction back: the log keeps it, and the fact after it. */
export const Again = ({ fact, meanwhile }: ActProps): JSX.Element => (
  <Doing label="State it again" title="State this fact again" reason="none" meanwhile={meanwhile} ask={() => statingAgain(fact, null, "")}>
    <Saying fact={fact} />
    <p class="muted">A new fact says the same from now on. This one stays ended.</p>
  </Doing>
);
