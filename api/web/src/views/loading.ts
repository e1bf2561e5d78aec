// Facts in bulk from lines of JSON or from text, in batches that the node takes whole.
import { send } from "../net/send";
import { may } from "../state/session";

export interface Progress {
  readonly sent: number;
  readonly total: number;
  readonly refused: number;
  /** The first refusal, in the node's words. */
  readonly first: string;
  readonly done: boolean;
}

type Line = Record<string, unknown>;

interface BatchAnswer {
  readonly results: readonly { status: number; fact?: { id: string; cid: string }; error?: { message?: string } | string }[];
}

const BATCH = 500;
const LINES_MAX = 200_000;
const FACT_FIELDS = ["entity", "relation", "value", "source", "confidence", "scope", "valid_from", "valid_until"];
const PARAGRAPHS_MAX = 5_000;

/** A fact for each paragraph. */
export async function* notesOf(text: string, about: string, source: string, scope: string): AsyncGenerator<Line[]> {
  const name = about.trim().toLowerCase().replaceAll(/[^\p{L}\p{N}]+/gu, "-").replaceAll(/^-|-$/g, "") || "notes";
  const paragraphs = text.split(/\n\s*\n/).map((each) => each.trim()).filter(Boolean).slice(0, PARAGRAPHS_MAX);
  for (let at = 0; at < paragraphs.length; at += BATCH)
    yield paragraphs.slice(at, at + BATCH).map((v) => ({ op: "assert", entity: `note:${name}`, relation: "memory:note", value: { type: "text", v }, source, scope }));
}

const parsed = (text: string): Line[] => {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  if (lines.length > LINES_MAX) throw new Error(`the file has ${lines.length} lines; over ${LINES_MAX}, use engramlog import`);
  return lines.map((line, n) => {
    try {
      return JSON.parse(line) as Line;
    } catch {
      throw new Error(`line ${n + 1} is not JSON`);
    }
  });
};

/** Write lines in order; what a line retracts is found by the key of the line that stated it. */
export const loadLines = async (given: AsyncIterable<unknown[]> | (() => Promise<string>), tell: (progress: Progress) => void): Promise<void> => {
  const made = new Map<string, { fact_id: string; hash: string }>();
  let [sent, refused, first, total] = [0, 0, "", 0];
  const write = async (items: Line[], keys: readonly (string | null)[] = []): Promise<void> => {
    if (items.length === 0) return;
    const { results } = await send<BatchAnswer>({ method: "POST", path: "/v1/facts/batch", body: items });
    results.forEach((result, n) => {
      const key = keys[n];
      if (result.fact !== undefined && key) made.set(key, { fact_id: result.fact.id, hash: result.fact.cid });
      if (result.status < 400) return;
      refused++;
      first ||= typeof result.error === "string" ? result.error : (result.error?.message ?? `status ${result.status}`);
    });
    sent += items.length;
    tell({ sent, total, refused, first, done: false });
  };
  if (typeof given !== "function") {
    for await (const items of given) await write(items as Line[]);
  } else {
    const lines = parsed(await given());
    total = lines.length;
    for (let at = 0; at < lines.length; at += BATCH) {
      const run = lines.slice(at, at + BATCH);
      await declare(run);
      const facts = run.filter((line) => (line["op"] ?? "assert") === "assert");
      const stated = facts.map((line): Line => ({ op: "assert", ...Object.fromEntries(FACT_FIELDS.filter((name) => line[name] !== undefined && line[name] !== null).map((name) => [name, line[name]])), ...derived(line, made) }));
      await write(stated, facts.map((line) => (typeof line["key"] === "string" ? line["key"] : null)));
      const ended = run.filter((line) => line["op"] === "retract").map((line) => ({ id: made.get(String(line["target"]))?.fact_id ?? line["id"], reason: line["reason"] ?? "" }));
      await write(ended.filter(({ id }) => typeof id === "string").map((each): Line => ({ op: "retract", ...each })));
    }
  }
  tell({ sent, total, refused, first, done: true });
};

const derived = (line: Line, made: ReadonlyMap<string, { fact_id: string; hash: string }>): Line => {
  const parents = Array.isArray(line["derived_from"]) ? line["derived_from"].map((each) => made.get(String(each))).filter((each) => each !== undefined) : [];
  return parents.length ? { derived_from: parents } : {};
};

/** What is said of relations and sources, where the key allows it. */
const declare = async (lines: readonly Line[]): Promise<void> => {
  for (const line of lines) {
    if (line["op"] === "policy" && Array.isArray(line["set_valued"]))
      await send({ method: "PUT", path: "/v1/relations/set-valued", body: { relations: line["set_valued"] } }).catch(() => undefined);
    if (line["op"] === "trust" && may("admin"))
      await send({ method: "PUT", path: "/v1/trust/sources", body: { source: line["source"], trust: line["trust"] } }).catch(() => undefined);
  }
};
