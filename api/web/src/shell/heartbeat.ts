// What the page as a whole knows of its node: who asks, where the log ends, how it lies in time.
import { effect, signal } from "@preact/signals";
import { written } from "../net/answer";
import { Refused, send } from "../net/send";
import type { Ready, Timeline } from "../net/types";
import { head, timeline } from "../state/moments";
import { key, me, type Me } from "../state/session";

export const BUCKETS = 200;
const BEAT_MS = 4000;

export const ready = signal<Ready | null>(null);
export const unreachable = signal(false);

const identify = async (): Promise<void> => {
  try {
    me.value = await send<Me>({ path: "/v1/me" });
  } catch (fault) {
    me.value = fault instanceof Refused && fault.status === 401 ? "none" : null;
  }
};

let asked = 0;
const measure = async (): Promise<void> => {
  const token = ++asked;
  try {
    const line = await send<Timeline>({ path: "/v1/time-travel/timeline", query: { buckets: BUCKETS } });
    if (token === asked) timeline.value = line;
  } catch {
    if (token === asked) timeline.value = null;
  }
};

/** Readiness answers 503 with the same body where the node is degraded. */
const beat = async (): Promise<void> => {
  try {
    const response = await fetch("/readyz", { credentials: "omit" });
    const answer = (await response.json()) as Ready;
    ready.value = answer;
    if (unreachable.value) {
      unreachable.value = false;
      written.value++;
      if (me.value === null) void identify();
    }
    if (answer.position !== head.value) {
      head.value = answer.position;
      void measure();
    }
  } catch {
    unreachable.value = true;
  }
};

/** Begin, and look again every few seconds while the page is in front. */
export const listen = (): void => {
  effect(() => {
    void key.value;
    me.value = null;
    void identify();
    void measure();
  });
  effect(() => {
    void written.value;
    void beat();
  });
  setInterval(() => {
    if (!document.hidden) void beat();
  }, BEAT_MS);
};

export { beat };
