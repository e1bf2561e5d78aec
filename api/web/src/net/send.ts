// One request to the node. The key goes along in a header that only this page sets: there are no
// cookies, so nothing that another site makes the browser send has any rights here.
import { key } from "../state/session";

type Plain = string | number | boolean | null | undefined;

export interface Ask {
  readonly method?: "GET" | "POST" | "PUT" | "DELETE";
  readonly path: string;
  readonly query?: Record<string, Plain>;
  readonly body?: unknown;
}

/** An answer that is no success, in the node's own words. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

export const addressOfAsk = ({ path, query = {} }: Ask): string => {
  const given = Object.entries(query)
    .filter(([, value]) => value !== "" && value !== null && value !== undefined)
    .map(([name, value]): [string, string] => [name, String(value)]);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
};

/** A part of a path: entity names hold slashes and colons. */
export const segment = (text: string): string => encodeURIComponent(text);

export const fetchAsk = (ask: Ask, signal: AbortSignal | null = null): Promise<Response> => {
  const headers: Record<string, string> = {};
  if (key.value) headers["Authorization"] = `Bearer ${key.value}`;
  if (ask.body !== undefined) headers["Content-Type"] = "application/json";
  return fetch(addressOfAsk(ask), {
    method: ask.method ?? "GET",
    headers,
    signal,
    credentials: "omit",
    body: ask.body === undefined ? null : JSON.stringify(ask.body),
  });
};

export const send = async <T>(ask: Ask, signal: AbortSignal | null = null): Promise<T> => {
  let response: Response;
  try {
    response = await fetchAsk(ask, signal);
  } catch (fault) {
    if (signal?.aborted) throw fault;
    throw new Refused(0, "unreachable", "The node does not answer. Is it still running?");
  }
  const text = await response.text();
  const answer: unknown = text === "" ? null : parsed(text);
  if (!response.ok) throw refusal(response.status, answer);
  return answer as T;
};

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
};

interface Wrong {
  readonly loc?: readonly (string | number)[];
  readonly msg?: string;
}

/** Of a batch that was refused as one: the item that was the reason. */
const culprit = (answer: unknown): string | undefined => {
  const results = (answer as { results?: readonly { error?: string | { code?: string; message?: string } }[] } | null)?.results ?? [];
  for (const { error } of results) {
    if (typeof error === "string") return error;
    if (error !== undefined && error.code !== "not_written") return error.message ?? error.code;
  }
  return undefined;
};

const refusal = (status: number, answer: unknown): Refused => {
  const detail = (answer as { detail?: unknown } | null)?.detail;
  if (typeof detail === "string") return new Refused(status, "", detail);
  if (Array.isArray(detail)) {
    const parts = (detail as Wrong[]).map((each) => `${(each.loc ?? []).slice(1).join(".")}: ${each.msg}`);
    return new Refused(status, "validation", parts.join("; "));
  }
  const coded = detail as { code?: string; message?: string } | undefined;
  return new Refused(status, coded?.code ?? "", culprit(answer) ?? coded?.message ?? coded?.code ?? `status ${status}`);
};
