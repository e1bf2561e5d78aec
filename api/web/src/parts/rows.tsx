// A long list of which only the rows in sight are in the page.
import type { ComponentChildren, JSX, RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

interface RowsProps<T> {
  readonly rows: readonly T[];
  readonly label: string;
  /** Of each row; of measured rows, a guess until they have been seen. */
  readonly height: number;
  /** Rows take the height that they need. */
  readonly measured?: boolean;
  readonly keyOf: (row: T) => string | number;
  readonly draw: (row: T, place: number) => ComponentChildren;
  /** Asked when the end comes near. */
  readonly more?: (() => void) | null;
  readonly total?: number | null;
  /** Rows that an act has taken off before the node has said yes: unseen, with their forms kept. */
  readonly taken?: ReadonlySet<string | number>;
}

const BEYOND = 8;
const FIRST = 12;
/** A list of so few rows of their own height is drawn whole: the browser's own search finds all of it. */
export const WHOLE = 120;
/** Rows that were worked in last stay in the page: a reason half written is not lost by scrolling. */
const TOUCHED = 10;
/** Browsers stop counting pixels at about 33 million; lists end well before. */
const PIXELS_MAX = 16_000_000;

type Key = string | number;
const NONE: ReadonlySet<Key> = new Set();

/** Scrolls with the page: no box within a box. */
export const Rows = <T,>({ rows, label, height, measured = false, keyOf, draw, more = null, total = null, taken = NONE }: RowsProps<T>): JSX.Element => {
  const list = useRef<HTMLDivElement>(null);
  const [[begin, end], setWindow] = useState<[number, number]>([0, FIRST]);
  const [touched, setTouched] = useState<readonly Key[]>([]);
  const heights = useHeights(measured);
  const tops = topsOf(rows, (row) => (taken.has(keyOf(row)) ? 0 : heights.of(keyOf(row)) ?? height));
  const look = useRef(() => undefined as void);
  look.current = () => {
    const box = list.current?.getBoundingClientRect();
    if (!box) return;
    const first = Math.max(0, placeAt(tops, -box.top) - BEYOND);
    const last = placeAt(tops, window.innerHeight - box.top) + 1 + BEYOND;
    setWindow((before) => (before[0] === first && before[1] === last ? before : [first, last]));
  };
  const whole = tops[rows.length] ?? 0;
  useEffect(() => look.current(), [height, rows.length, whole]);
  useEffect(() => {
    const now = (): void => look.current();
    window.addEventListener("scroll", now, { passive: true });
    window.addEventListener("resize", now);
    return () => {
      window.removeEventListener("scroll", now);
      window.removeEventListener("resize", now);
    };
  }, []);
  useEffect(() => {
    if (more !== null && end >= rows.length) more();
  }, [end, rows.length, more]);
  heights.grown.current = (key, by) => {
    // What lies above the window pushes nothing that is read.
    const place = rows.findIndex((row) => keyOf(row) === key);
    const top = list.current?.getBoundingClientRect().top ?? 0;
    if (place >= 0 && top + (tops[place + 1] ?? 0) < 0) window.scrollBy(0, by);
  };
  const all = measured && rows.length <= WHOLE;
  const kept = rows.flatMap((row, place) => all || (place >= begin && place < end && (tops[place] ?? 0) < PIXELS_MAX) || touched.includes(keyOf(row)) || taken.has(keyOf(row)) ? [place] : []);
  return (
    <div class={measured ? "rows measured" : "rows"} ref={list} role="list" aria-label={label}
      style={{ height: `${Math.min(whole, PIXELS_MAX)}px` }}
      onFocusIn={(event) => {
        const place = kept[[...(list.current?.children ?? [])].findIndex((each) => each.contains(event.target as Node))];
        const row = place === undefined ? undefined : rows[place];
        if (row !== undefined && measured) setTouched((before) => [keyOf(row), ...before.filter((each) => each !== keyOf(row))].slice(0, TOUCHED));
      }}>
      {kept.map((place) => {
        const row = rows[place] as T;
        return (
          <div class="row" role="listitem" key={keyOf(row)} aria-setsize={total ?? -1} aria-posinset={place + 1} hidden={taken.has(keyOf(row))}
            style={{ transform: `translateY(${tops[place] ?? 0}px)`, ...(measured ? {} : { height: `${height}px` }) }}>
            {measured ? <Measured tell={(element) => heights.watch(element, keyOf(row))}>{draw(row, place)}</Measured> : draw(row, place)}
          </div>
        );
      })}
    </div>
  );
};

/** Where each row begins, and where the last one ends. */
const topsOf = <T,>(rows: readonly T[], height: (row: T) => number): readonly number[] => {
  const tops = [0];
  let top = 0;
  for (const row of rows) tops.push((top += height(row)));
  return tops;
};

/** The row that lies at a height, by halves. */
const placeAt = (tops: readonly number[], y: number): number => {
  let [low, high] = [0, tops.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((tops[middle] ?? 0) <= y) low = middle;
    else high = middle - 1;
  }
  return low;
};

interface Heights {
  readonly of: (key: Key) => number | undefined;
  readonly watch: (element: HTMLElement, key: Key) => () => void;
  readonly grown: RefObject<(key: Key, by: number) => void>;
}

/** The heights of the rows that have been seen. */
const useHeights = (measured: boolean): Heights => {
  const known = useRef(new Map<Key, number>());
  const [, redraw] = useState(0);
  const grown = useRef<(key: Key, by: number) => void>(() => undefined);
  return {
    of: (key) => (measured ? known.current.get(key) : undefined),
    watch: (element, key) => {
      const watch = new ResizeObserver(() => {
        const height = element.offsetHeight;
        const before = known.current.get(key);
        if (height === 0 || height === before) return;
        known.current.set(key, height);
        if (before !== undefined) grown.current?.(key, height - before);
        redraw((times) => times + 1);
      });
      watch.observe(element);
      return () => watch.disconnect();
    },
    grown,
  };
};

const Measured = ({ tell, children }: { tell: (element: HTMLElement) => () => void; children: ComponentChildren }): JSX.Element => {
  const inner = useRef<HTMLDivElement>(null);
  useEffect(() => (inner.current === null ? undefined : tell(inner.current)), []);
  return <div class="row-inner" ref={inner}>{children}</div>;
};

/** Which of equally high rows of a box that scrolls are in sight. */
export const useInSight = (box: RefObject<HTMLElement | null>, height: number, rows: number): [number, number] => {
  const [[begin, end], setWindow] = useState<[number, number]>([0, FIRST * 3]);
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const look = (): void => {
      const first = Math.max(0, Math.floor(element.scrollTop / height) - BEYOND);
      const last = Math.ceil((element.scrollTop + element.clientHeight) / height) + BEYOND;
      setWindow((before) => (before[0] === first && before[1] === last ? before : [first, last]));
    };
    look();
    element.addEventListener("scroll", look, { passive: true });
    return () => element.removeEventListener("scroll", look);
  }, [height, rows]);
  return [begin, Math.min(end, rows)];
};
