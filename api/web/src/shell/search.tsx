// The field at the top: whatever is typed is looked for at once. `/` leads to it.
import type { JSX, TargetedInputEvent } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Icon } from "../parts/icons";
import { addressOf, amend, go, param, place } from "../state/place";

const PAUSE_MS = 50;

export const SearchField = (): JSX.Element => {
  const field = useRef<HTMLInputElement>(null);
  const timer = useRef(0);
  const looked = useRef("");
  const said = place.value.view === "search" ? param("q") : "";
  const [text, setText] = useState(said);
  useEffect(() => {
    // Letters typed since the address was set are not taken back by it.
    if (said !== looked.current) setText(said);
    looked.current = said;
  }, [said]);
  useEffect(() => {
    const lead = (event: KeyboardEvent): void => {
      const typing = event.target instanceof HTMLElement && event.target.matches("input, textarea, select");
      if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      field.current?.focus();
      field.current?.select();
    };
    document.addEventListener("keydown", lead);
    return () => document.removeEventListener("keydown", lead);
  }, []);
  const look = (typed: string): void => {
    looked.current = typed;
    if (place.value.view === "search") amend({ q: typed, all: "" }, true);
    else go(addressOf("search", { q: typed }));
  };
  const typed = (event: TargetedInputEvent<HTMLInputElement>): void => {
    const now = event.currentTarget.value;
    setText(now);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => look(now.trim()), PAUSE_MS);
  };
  const pressed = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown") {
      event.preventDefault();
      document.querySelector<HTMLElement>("#content .card, #content .fact a")?.focus();
    }
  };
  return (
    <form class="search-field" role="search" onSubmit={(event) => {
      event.preventDefault();
      clearTimeout(timer.current);
      look(text.trim());
    }}>
      <Icon name="search" />
      <input ref={field} type="search" value={text} onInput={typed} onKeyDown={pressed} spellcheck={false} autocomplete="off"
        aria-label="Search names, aliases and values" placeholder="Search names, aliases, values" maxLength={500} />
      <kbd aria-hidden="true">/</kbd>
    </form>
  );
};
