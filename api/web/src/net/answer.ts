// What a view asks the node for. Every request carries a token: an answer that is not to the
// newest request is dropped, so a page never shows what was asked for before.
import { useEffect, useRef, useState } from "preact/hooks";
import { signal } from "@preact/signals";
import { amend, param } from "../state/place";
import { key } from "../state/session";
import { Refused, send, type Ask } from "./send";

export interface Answer<T> {
  /** The newest answer. While another one is on its way, the one before it. */
  readonly data: T | null;
  readonly fault: Refused | null;
  readonly waiting: boolean;
}

const NONE: Answer<never> = { data: null, fault: null, waiting: false };

/** Counts up when something was written: every view then asks again. */
export const written = signal(0);

export const useAnswer = <T>(ask: Ask | null): Answer<T> => {
  const [answer, setAnswer] = useState<Answer<T>>(NONE);
  const newest = useRef(0);
  const text = ask === null ? "" : JSON.stringify([ask, key.value, written.value]);
  useEffect(() => {
    const token = ++newest.current;
    if (ask === null) {
      setAnswer(NONE);
      return;
    }
    const stop = new AbortController();
    setAnswer((before) => ({ ...before, fault: null, waiting: true }));
    send<T>(ask, stop.signal).then(
      (data) => {
        if (token === newest.current) setAnswer({ data, fault: null, waiting: false });
      },
      (fault: unknown) => {
        if (token !== newest.current) return;
        const refused = fault instanceof Refused ? fault : new Refused(0, "", String(fault));
        setAnswer({ data: null, fault: refused, waiting: false });
      },
    );
    return () => stop.abort();
  }, [text]);
  return answer;
};

/** The same, asked again every few seconds while the page is in front. */
export const usePolled = <T>(ask: Ask | null, seconds: number): Answer<T> => {
  const [tick, setTick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) setTick((before) => before + 1);
    }, seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
  const [answer, setAnswer] = useState<Answer<T>>(NONE);
  const newest = useRef(0);
  const text = ask === null ? "" : JSON.stringify([ask, key.value, written.value, tick]);
  useEffect(() => {
    const token = ++newest.current;
    if (ask === null) return;
    send<T>(ask).then(
      (data) => {
        if (token === newest.current) setAnswer({ data, fault: null, waiting: false });
      },
      (fault: unknown) => {
        if (token === newest.current && fault instanceof Refused)
          setAnswer((before) => ({ ...before, fault, waiting: false }));
      },
    );
  }, [text]);
  return answer;
};

export interface Pages<T> extends Answer<readonly T[]> {
  readonly total: number | null;
  readonly more: (() => void) | null;
  /** Anew with every answer to the first page. */
  readonly round: number;
}

interface Page<T> {
  readonly rows: readonly T[];
  readonly next: Ask | null;
  readonly total: number | null;
}

interface Read<T> extends Answer<readonly T[]> {
  readonly round: number;
  readonly pages: number;
  readonly next: Ask | null;
  readonly total: number | null;
}

/** So many pages are asked for again at most, after a reload or a write. */
const AGAIN_MAX = 20;

/** A list that comes in pages, each asked for when the one before it has been read. How many have
 * been read is in the address: a view has one such list. */
export const usePages = <A, T>(first: Ask | null, take: (answer: A, ask: Ask) => Page<T>): Pages<T> => {
  const [read, setRead] = useState<Read<T>>({ ...NONE, round: 0, pages: 0, next: null, total: null });
  const latest = useRef(read);
  const newest = useRef(0);
  const running = useRef(false);
  const show = (got: Read<T>): void => setRead((latest.current = got));
  const asked = first === null ? "" : JSON.stringify([first, key.value]);
  /** Read on from a page until there are so many. */
  const run = async (from: Ask, known: Read<T>, pages: number, stop: AbortSignal | null, each: (read: Read<T>) => void): Promise<void> => {
    const token = ++newest.current;
    running.current = true;
    let got = known;
    try {
      for (let ask: Ask | null = from; ask !== null && got.pages < pages; ask = got.next) {
        const answer: A = await send<A>(ask, stop);
        if (token !== newest.current) return;
        const page = take(answer, ask);
        got = { ...got, data: [...(got.data ?? []), ...page.rows], pages: got.pages + 1, next: page.next, total: got.total ?? page.total, waiting: false };
        each(got);
      }
    } catch (error) {
      if (token !== newest.current) return;
      const fault = error instanceof Refused ? error : new Refused(0, "", String(error));
      got = { ...got, next: null, fault, waiting: false };
    }
    running.current = false;
    show(got);
  };
  useEffect(() => {
    if (first === null) {
      newest.current++;
      running.current = false;
      show({ ...NONE, round: latest.current.round + 1, pages: 0, next: null, total: null });
      return;
    }
    const before = latest.current;
    show({ ...before, fault: null, waiting: true });
    const begun: Read<T> = { ...NONE, round: before.round + 1, pages: 0, next: null, total: null };
    const pages = Math.min(AGAIN_MAX, Math.max(1, Number(param("pages")) || 1));
    const stop = new AbortController();
    // A list that is there already changes as a whole, so that the reader stays in place.
    void run(first, begun, pages, stop.signal, (got) => { if (before.data === null) show(got); });
    return () => {
      newest.current++;
      stop.abort();
    };
  }, [asked, written.value]);
  const { data, fault, waiting, total, next, round } = read;
  const more = next === null || data === null ? null : () => {
    // An effect of an earlier drawing may come late: its page is there by now.
    if (running.current || latest.current !== read) return;
    void run(next, read, read.pages + 1, null, (got) => amend({ pages: String(got.pages) }, true));
  };
  return { data, fault, waiting, total, more, round };
};
