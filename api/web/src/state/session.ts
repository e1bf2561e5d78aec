// The key and the one it stands for. The key is kept for this tab alone, and goes with it.
import { computed, signal } from "@preact/signals";

const NAME = "engramlog.key";

export const key = signal(sessionStorage.getItem(NAME) ?? "");

export interface Me {
  readonly entity_uri: string;
  readonly permissions: readonly string[];
  readonly scopes: readonly string[];
}

/** Who asks: null while it is not known, "none" where the node wants a key and has none. */
export const me = signal<Me | "none" | null>(null);

export const useKey = (text: string): void => {
  if (text) sessionStorage.setItem(NAME, text);
  else sessionStorage.removeItem(NAME);
  key.value = text;
};

const granted = computed(() => (me.value === null || me.value === "none" ? [] : me.value.permissions));
export const may = (permission: string): boolean => granted.value.includes(permission);
export const anonymous = computed(() => key.value === "" && me.value !== null && me.value !== "none");
