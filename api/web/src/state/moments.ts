// The log's span and the moment in it that the page looks at.
import { computed, signal } from "@preact/signals";
import type { Timeline } from "../net/types";
import { at, place } from "./place";

/** How the log's events lie in time; null until the node has said. */
export const timeline = signal<Timeline | null>(null);
/** The newest position of the log. */
export const head = signal(0);

const milliseconds = (instant: string): number => new Date(instant).getTime();

export interface Span {
  readonly beginMs: number;
  readonly endMs: number;
}

export const span = computed<Span | null>(() => {
  const instants = timeline.value?.instants;
  const [first, last] = [instants?.[0], instants?.at(-1)];
  return first === undefined || last === undefined ? null : { beginMs: milliseconds(first), endMs: milliseconds(last) };
});

/** Where events came in bursts, steps of the log say more than the clock. */
export const axis = computed<"time" | "events">(() => {
  const chosen = place.value.params["axis"];
  if (chosen === "time" || chosen === "events") return chosen;
  const positions = timeline.value?.positions;
  if (positions === undefined || positions.length < 3) return "events";
  let busy = 0;
  for (let n = 1; n < positions.length; n++) if ((positions[n] ?? 0) > (positions[n - 1] ?? 0)) busy++;
  return busy >= 8 ? "time" : "events";
});

/** The last position at an instant, and the other way round, between the known points. */
export const positionAt = (instantMs: number): number => {
  const line = timeline.value;
  if (line === null) return 0;
  const times = line.instants.map(milliseconds);
  return Math.round(between(times, line.positions, instantMs));
};

export const instantAt = (position: number): number => {
  const line = timeline.value;
  if (line === null) return 0;
  return between(line.positions, line.instants.map(milliseconds), position);
};

const between = (from: readonly number[], to: readonly number[], value: number): number => {
  const last = from.length - 1;
  if (last < 0) return 0;
  let place = from.findIndex((each) => each >= value);
  if (place === -1) place = last;
  if (place === 0) return to[0] ?? 0;
  const [low = 0, high = 0] = [from[place - 1], from[place]];
  const [begin = 0, end = 0] = [to[place - 1], to[place]];
  return high === low ? end : begin + ((end - begin) * Math.min(1, (value - low) / (high - low)));
};

/** The moment looked at in milliseconds and as a position, about. */
export const looking = computed<{ ms: number; position: number; now: boolean }>(() => {
  const text = at.value;
  const stepped = /^position:(\d+)$/.exec(text);
  if (stepped) {
    const position = Number(stepped[1]);
    return { ms: instantAt(position), position, now: false };
  }
  const ms = milliseconds(text);
  if (text !== "" && !Number.isNaN(ms)) return { ms, position: positionAt(ms), now: false };
  return { ms: span.value?.endMs ?? Date.now(), position: head.value, now: true };
});

/** This view's address with its moment written out. */
export const pinnedAddress = computed(() => {
  const { view, params } = place.value;
  const pinned = at.value === "" && head.value > 0 ? { ...params, at: `position:${head.value}` } : params;
  const query = new URLSearchParams(pinned).toString().replaceAll("%3A", ":").replaceAll("%2F", "/");
  return `#/${view}${query ? `?${query}` : ""}`;
});
