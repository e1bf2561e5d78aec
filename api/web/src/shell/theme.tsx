// Light or dark: as the system says, until the reader chooses.
import type { JSX } from "preact";
import { effect, signal } from "@preact/signals";
import { Icon } from "../parts/icons";

const NAME = "engramlog.theme";
const ORDER = ["", "light", "dark"] as const;
const LABEL: Record<string, string> = { "": "as the system", light: "light", dark: "dark" };

export const theme = signal(sessionStorage.getItem(NAME) ?? "");
effect(() => {
  if (theme.value) document.documentElement.dataset["theme"] = theme.value;
  else delete document.documentElement.dataset["theme"];
});

export const ThemeChoice = (): JSX.Element => {
  const next = (): void => {
    const place = ORDER.findIndex((each) => each === theme.value);
    theme.value = ORDER[(place + 1) % ORDER.length] ?? "";
    sessionStorage.setItem(NAME, theme.value);
  };
  const label = `Colours: ${LABEL[theme.value] ?? ""}`;
  return <button type="button" class="tool bare" onClick={next} aria-label={label} title={label}><Icon name="theme" size={16} /></button>;
};
