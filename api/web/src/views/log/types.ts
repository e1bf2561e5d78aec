import type { Fact } from "../../net/types";

export interface LogEvent {
  readonly position: number;
  readonly event_id: string;
  readonly kind: string;
  readonly schema_version: number;
  readonly actor: string;
  readonly stream: string;
  readonly stream_seq: number | null;
  readonly origin: string;
  readonly peer: string | null;
  readonly recorded_at: string;
  readonly received_at: string;
  readonly causation_id: string | null;
  /** The first of the `facts` that it touched. */
  readonly fact_ids: readonly string[];
  readonly facts: number;
  readonly entity: string | null;
  readonly relation: string | null;
  /** What it is about, where that is not one fact: a recall's question, a key's holder. */
  readonly about: string | null;
}

export interface LogPage {
  readonly events: readonly LogEvent[];
  readonly next_before: number | null;
  readonly head: number;
}

export interface LogEventAnswer {
  readonly event: LogEvent;
  readonly hlc: string;
  readonly erased: boolean;
  readonly payload: Record<string, unknown> | null;
  readonly chain: {
    readonly hash: string;
    readonly prev_hash: string;
    readonly payload_hash: string;
    readonly previous: number | null;
    readonly next: number | null;
    readonly verified: boolean;
    readonly fault: string | null;
  } | null;
  readonly causes: readonly LogEvent[];
  readonly consequences: readonly LogEvent[];
  /** The id of the first cause; of the event itself, if it has none. */
  readonly correlation_id: string;
  /** What else followed from the first cause. */
  readonly related: readonly LogEvent[];
  readonly facts: readonly Fact[];
  readonly read_by: readonly ReadBy[];
  /** The erasure that the event is, or that took it. */
  readonly erasure: EventErasure | null;
}

export interface ReadBy {
  readonly projection: string;
  readonly applied: boolean;
  readonly changed: number;
  readonly rows: readonly ChangedRow[];
  readonly words: string | null;
}

export interface ChangedRow {
  readonly table: string;
  readonly change: string;
  readonly key: Record<string, string | number | null>;
  readonly fact_ids: readonly string[];
}

export interface EventErasure {
  readonly erasure_id: string;
  readonly status: "waiting" | "cleaning" | "clean";
  readonly reason: string;
  readonly actor: string;
  readonly position: number;
  readonly facts: number;
  readonly events: number;
  readonly fact_ids: readonly string[];
  readonly removed: readonly { readonly position: number; readonly kind: string }[];
}

/** `ORIGIN/EPOCH/scope/public` as "scope/public", which says what is in it. */
export const partition = (stream: string): string => stream.split("/").slice(2).join("/") || stream;
