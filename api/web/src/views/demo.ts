// The demo's facts, which this memory may hold already.
import { useAnswer } from "../net/answer";
import type { Ask } from "../net/send";

export const DEMO_QUESTIONS = ["How many moons of Saturn are known?", "Who led NASA in 1995?", "Who was the first woman in space?"];

const PLUTO: Ask = { path: "/v1/facts", query: { entity: "stigmem://spaceflight.example/body/pluto", limit: 1 } };

/** Whether the reader finds the demo in this memory; null until that is known. */
export const useDemo = (): boolean | null => {
  const { data, fault } = useAnswer<{ readonly facts: readonly unknown[] }>(PLUTO);
  return data === null ? (fault === null ? null : false) : data.facts.length > 0;
};
