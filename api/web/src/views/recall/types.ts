import type { Ask } from "../../net/send";
import type { Fact, Moment } from "../../net/types";

/** One question, asked as a model does, and for its best candidates with their scores. */
export interface LabAsks {
  readonly lines: Ask;
  readonly all: Ask;
}

/** The answer as a model gets it. */
export interface RecallText {
  readonly text: string;
  readonly returned: number;
  readonly total_scored: number;
  readonly token_budget: number;
  readonly tokens_used: number;
  readonly truncated: boolean;
  readonly moment: Moment;
}

export interface StageScore {
  readonly raw: number;
  readonly normalised: number;
  readonly weight: number;
}

export interface Recalled {
  readonly id: string;
  readonly fact: Fact;
  readonly score: number;
  readonly hop_distance: number | null;
  readonly why: readonly string[];
  readonly found_by: string | null;
  readonly from_card: boolean;
  readonly explain?: {
    readonly stages: Record<string, StageScore>;
    readonly factors: Record<string, number>;
    readonly session?: number;
  };
}

export interface RecallAnswer {
  readonly results: readonly Recalled[];
  readonly weights: Record<string, number>;
  readonly stages: readonly { name: string; status: string; hits: number; milliseconds: number; detail: string }[];
}

export interface Receipt {
  readonly receipt_id: string;
  readonly principal: string;
  readonly query: string;
  readonly profile: string;
  readonly answered_at: string;
  /** Of what was known then; before the answer if a past moment was asked about. */
  readonly moment: Moment;
  readonly returned: readonly { fact_id: string; rank: number }[];
  readonly tokens_used: number | null;
}

export interface Replay {
  readonly query: string;
  readonly then: { readonly moment: Moment; readonly faithful: boolean; readonly reasons: readonly string[] };
  readonly now: { readonly moment: Moment };
  readonly counts: Record<string, number>;
  readonly facts: readonly {
    readonly fact_id: string;
    readonly change: string;
    readonly rank_then: number | null;
    readonly rank_now: number | null;
    readonly score_then: number | null;
    readonly score_now: number | null;
    readonly fact: Fact | null;
  }[];
}

export interface Profiles {
  readonly profiles: readonly { name: string; description: string; origin: string }[];
}
