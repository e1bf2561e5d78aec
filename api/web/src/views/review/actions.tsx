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
}

/** A button that opens a form with the reason and what will happen, and then writes. */
export const Doing = ({ label, title, danger = false, primary = false, children, fields, reason = "free", ask, done }: DoingProps): JSX.Element => {
  const dialog = useRef<HTMLDialogElement>(null);
  const [fault, setFault] = useState<Refused | null>(null);
  const [sending, setSending] = useState(false);
  const [open, setOpen] = useState(false);
  useEffect(() => {
    if (open) dialog.current?.querySelector<HTMLElement>("input, select")?.focus();
  }, [open]);
  const submit = async (event: TargetedSubmitEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    setSending(true);
    setFault(null);
    try {
      const answer = await send(ask(String(given.get("reason") ?? "").trim(), given));
      dialog.current?.close();
      done?.(answer);
      written.value++;
    } catch (error) {
      setFault(error instanceof Refused ? error : new Refused(0, "", String(error)));
    } finally {
      setSending(false);
    }
  };
  return (
    <>
      <button type="button" class={danger ? "danger" : primary ? "primary" : ""} onClick={() => { setFault(null); setOpen(true); dialog.current?.showModal(); }}>{label}</button>
      <dialog class="sheet small" ref={dialog} aria-label={title} onClose={() => setOpen(false)}>
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

export const Retract = ({ fact, label = "Retract" }: { fact: Fact; label?: string }): JSX.Element => (
  <Doing label={label} title="Retract this fact" ask={(reason) => ({
    method: "POST", path: `/v1/facts/${segment(fact.id)}/retract`, body: reason ? { reason } : {},
  })}>
    <Saying fact={fact} />
    <p class="muted">It ends now; the past keeps it. <a href={addressOf("fact", { id: fact.id })}>Its history</a> will say who retracted it and why.</p>
  </Doing>
);

/** Take a retraction back: the log keeps it, and the fact after it. */
export const Again = ({ fact }: { fact: Fact }): JSX.Element => (
  <Doing label="State it again" title="State this fact again" reason="none" ask={() => statingAgain(fact, null, "")}>
    <Saying fact={fact} />
    <p class="muted">A new fact says the same from now on. This one stays ended.</p>
  </Doing>
);
