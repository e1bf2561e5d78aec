// A long list of which only the rows in sight are in the page. All rows are equally high.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

interface RowsProps<T> {
  readonly rows: readonly T[];
  readonly label: string;
  readonly height: number;
  readonly keyOf: (row: T) => string | number;
  readonly draw: (row: T, place: number) => ComponentChildren;
  /** Asked when the end comes near. */
  readonly more?: (() => void) | null;
  readonly total?: number | null;
}

const BEYOND = 8;
/** Browsers stop counting pixels at about 33 million; lists end well before. */
const PIXELS_MAX = 16_000_000;

/** Scrolls with the page: no box within a box. */
export const Rows = <T,>({ rows, label, height, keyOf, draw, more = null, total = null }: RowsProps<T>): JSX.Element => {
  const list = useRef<HTMLDivElement>(null);
  const [[begin, end], setWindow] = useState<[number, number]>([0, 40]);
  useEffect(() => {
    const look = (): void => {
      const box = list.current?.getBoundingClientRect();
      if (!box) return;
      const first = Math.max(0, Math.floor(-box.top / height) - BEYOND);
      const last = Math.ceil((window.innerHeight - box.top) / height) + BEYOND;
      setWindow((before) => (before[0] === first && before[1] === last ? before : [first, last]));
    };
    look();
    window.addEventListener("scroll", look, { passive: true });
    window.addEventListener("resize", look);
    return () => {
      window.removeEventListener("scroll", look);
      window.removeEventListener("resize", look);
    };
  }, [height, rows.length]);
  useEffect(() => {
    if (more !== null && end >= rows.length) more();
  }, [end, rows.length, more]);
  const shown = rows.slice(begin, Math.min(end, rows.length, Math.floor(PIXELS_MAX / height)));
  return (
    <div class="rows" ref={list} role="list" aria-label={label}
      style={{ height: `${Math.min(rows.length * height, PIXELS_MAX)}px` }}>
      {shown.map((row, n) => (
        <div class="row" role="listitem" key={keyOf(row)} aria-setsize={total ?? -1} aria-posinset={begin + n + 1}
          style={{ transform: `translateY(${(begin + n) * height}px)`, height: `${height}px` }}>
          {draw(row, begin + n)}
        </div>
      ))}
    </div>
  );
};
