// The key: given once a tab, never shown again, forgotten on demand.
import type { JSX } from "preact";
import { useRef } from "preact/hooks";
import { Icon } from "../parts/icons";
import { NameText } from "../parts/names";
import { visible } from "../parts/text";
import { key, me, useKey } from "../state/session";

export const KeyForm = (): JSX.Element => {
  const dialog = useRef<HTMLDialogElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const who = me.value;
  const submit = (event: Event): void => {
    event.preventDefault();
    const text = field.current?.value.trim() ?? "";
    if (field.current) field.current.value = "";
    useKey(text);
    dialog.current?.close();
  };
  return (
    <>
      <button type="button" class={who === "none" ? "tool wanted" : "tool"} id="key-open" onClick={() => dialog.current?.showModal()}>
        <Icon name="key" size={16} />
        <span class="caller" aria-live="polite">
          {who === null ? "…" : who === "none" ? "Give a key" : key.value ? <NameText uri={who.entity_uri} /> : "no key"}
        </span>
      </button>
      <dialog class="sheet small" ref={dialog} aria-labelledby="key-title">
        <div class="sheet-head">
          <h2 id="key-title">Key</h2>
          <button type="button" class="tool" onClick={() => dialog.current?.close()}><Icon name="close" size={16} /> Close</button>
        </div>
        {who !== null && who !== "none" && (
          <p>You are <code>{visible(who.entity_uri)}</code> and may <strong>{who.permissions.join(", ")}</strong> in {who.scopes.join(", ")}.</p>
        )}
        <form class="fields" onSubmit={submit}>
          <label>API key
            <input ref={field} id="key" type="password" autocomplete="off" spellcheck={false} pattern="\s*[!-~]*\s*" title="Letters, digits and signs of ASCII" />
          </label>
          <button class="primary">Use this key</button>
          <button type="button" disabled={key.value === ""} onClick={() => { useKey(""); dialog.current?.close(); }}>Forget the key</button>
        </form>
        <p class="muted">The key is kept in this tab until it is closed. It is sent to this node alone.</p>
      </dialog>
    </>
  );
};
