// Writes from the page: each asks for a reason, shows at once, and says what the node made of it.
import type { ComponentChildren, JSX, TargetedSubmitEvent } from "preact";
import { useRef, useState } from "preact/hooks";
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
      <button type="button" class={danger ? "danger" : primary ? "primary" : ""} onClick={() => { setFault(null); dialog.current?.showModal(); }}>{label}</button>
      <dialog class="sheet small" ref={dialog} aria-label={title}>
        <div class="sheet-head">
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
        </form>
      </dialog>
    </>
  );
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
