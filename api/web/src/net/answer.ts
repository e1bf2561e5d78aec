// What a view asks the node for. Every request carries a token: an answer that is not to the
// newest request is dropped, so a page never shows what was asked for before.
import { useEffect, useRef, useState } from "preact/hooks";
import { signal } from "@preact/signals";
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
}

interface Page<T> {
  readonly rows: readonly T[];
  readonly next: Ask | null;
  readonly total: number | null;
}

/** A list that comes in pages, each asked for when the one before it has been read. */
export const usePages = <A, T>(first: Ask | null, take: (answer: A, ask: Ask) => Page<T>): Pages<T> => {
  const head = useAnswer<A>(first);
  const [later, setLater] = useState<{ of: A | null; rows: readonly T[]; next: Ask | null; fault: Refused | null }>({
    of: null, rows: [], next: null, fault: null,
  });
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), [head.data]);
  if (head.data === null || first === null) return { ...head, data: null, total: null, more: null };
  const begun = take(head.data, first);
  const current = later.of === head.data ? later : { of: head.data, rows: [], next: begun.next, fault: null };
  const rows = current.rows.length ? [...begun.rows, ...current.rows] : begun.rows;
  const next = current.next;
  const more = next === null ? null : () => {
    if (running.current !== null && !running.current.signal.aborted) return;
    const stop = (running.current = new AbortController());
    send<A>(next, stop.signal).then(
      (answer) => {
        running.current = null;
        if (stop.signal.aborted) return;
        const page = take(answer, next);
        setLater({ of: head.data, rows: [...current.rows, ...page.rows], next: page.next, fault: null });
      },
      (fault: unknown) => {
        running.current = null;
        if (!stop.signal.aborted && fault instanceof Refused) setLater({ ...current, next: null, fault });
      },
    );
  };
  return { data: rows, fault: head.fault ?? current.fault, waiting: head.waiting, total: begun.total, more };
};
