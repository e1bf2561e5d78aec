// The parts of the node's answers that the page reads.

export interface Value {
  readonly type: string;
  readonly v?: string | number | boolean | null;
  readonly interpret_as?: string;
}

export interface Fact {
  readonly id: string;
  readonly entity: string;
  readonly relation: string;
  readonly value: Value;
  readonly source: string;
  readonly timestamp: string;
  readonly confidence: number;
  readonly effective_confidence: number;
  readonly source_trust: number | null;
  readonly scope: string;
  readonly valid_from: string | null;
  readonly valid_until: string | null;
  readonly contradicted: boolean;
  readonly quarantine_status: string | null;
  readonly garden_id: string | null;
  readonly received_from: string | null;
  readonly attested: boolean | null;
  readonly derived_from: readonly unknown[];
  readonly sanitizer_warnings: readonly unknown[];
  /** Whether the value was changed before it came here. */
  readonly sanitizer_redacted: boolean;
  readonly attributes?: unknown;
  readonly cid: string;
  readonly position: number;
  readonly confidence_before?: number;
  readonly confidence_after?: number;
  readonly retracted_at_position?: number;
}

export interface Moment {
  readonly position: number;
  readonly instant: string;
}

export interface FactPage {
  readonly facts: readonly Fact[];
  readonly total: number;
  readonly cursor: string | null;
}

export interface Conflict {
  readonly conflict_id: string;
  readonly fact_a: Fact;
  readonly fact_b: Fact;
  readonly status: string;
  readonly detected_at: string;
  readonly winning_fact_id?: string | null;
  readonly resolution_note?: string | null;
  readonly resolved_by?: string | null;
}

export interface ConflictPage {
  readonly conflicts: readonly Conflict[];
  readonly cursor: string | null;
}

export interface FoundEntity {
  readonly entity: string;
  readonly facts: number;
  readonly label: string | null;
  readonly alias: string | null;
}

export interface Found {
  readonly entities: readonly FoundEntity[];
  readonly facts: readonly Fact[];
  readonly moment: Moment;
}

export interface Timeline {
  readonly instants: readonly string[];
  readonly positions: readonly number[];
  readonly head: number;
}

export interface Ready {
  readonly status: string;
  readonly position: number;
  readonly reason?: string;
  readonly projections: Record<string, { version: number; position: number; lag: number; halted: string | null }>;
  readonly embedding: { provider: string | null; model: string | null; dimensions: number | null; lag: number; error: string | null };
}

export interface Neighbour {
  readonly entity: string;
  readonly relation: string;
  readonly hops: number;
  readonly confidence: number;
  readonly source_trust: number;
  readonly path: readonly string[];
}

export interface Neighbours {
  readonly entity: string;
  readonly neighbors: readonly Neighbour[];
  readonly next_cursor: string | null;
  readonly total_hint: number;
}

export interface LifeEvent {
  readonly position: number;
  readonly received_at: string;
  readonly kind: string;
  readonly actor: string;
  readonly event_id: string;
  readonly causation_id: string | null;
  readonly peer: string | null;
  readonly fact_ids: readonly string[];
  readonly reason: string | null;
  readonly note: string | null;
  readonly conflict_id: string | null;
  readonly winner_id: string | null;
}
