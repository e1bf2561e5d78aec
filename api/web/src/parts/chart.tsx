// Lines over time or over a column, drawn by uPlot in the palette's colours.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { tickText } from "./text";
import { theme } from "../shell/theme";

interface ChartProps {
  readonly label: string;
  /** Seconds for a time axis, else any numbers. */
  readonly x: readonly number[];
  readonly series: readonly { readonly name: string; readonly values: readonly (number | null)[] }[];
  readonly height?: number;
  readonly time?: boolean;
  readonly names?: readonly string[];
  readonly bars?: boolean;
}

export const Chart = ({ label, x, series, height = 110, time = true, names, bars = false }: ChartProps): JSX.Element => {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const shape = JSON.stringify([series.map(({ name }) => name), height, time, bars, theme.value, names?.length]);
  useEffect(() => {
    const root = place.current;
    if (root === null) return;
    const made = draw(root, { label, x, series, height, time, bars, ...(names ? { names } : {}) });
    chart.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: root.clientWidth, height }));
    watch.observe(root);
    return () => {
      watch.disconnect();
      made.destroy();
    };
  }, [shape]);
  useEffect(() => {
    chart.current?.setData([x as number[], ...series.map(({ values }) => values as (number | null)[])]);
  }, [x, series]);
  const last = series.map(({ name, values }) => `${name} ${values.at(-1) ?? "none"}`).join(", ");
  return <div class="chart" ref={place} role="img" aria-label={`${label}: ${last}`} />;
};

/** UTC, as everywhere here. */
const acrossText = (at: number, time: boolean, splits: readonly number[]): string =>
  time ? tickText(at * 1000, 1000 * ((splits.at(-1) ?? at) - (splits[0] ?? at))) : String(at);

const draw = (root: HTMLElement, { x, series, height, time, names, bars }: ChartProps & { height: number }): uPlot => {
  const style = getComputedStyle(root);
  const colour = (name: string): string => {
    root.style.color = `var(--${name})`;
    const found = getComputedStyle(root).color;
    root.style.color = "";
    return found;
  };
  const [muted, line] = [colour("muted"), colour("line")];
  const font = `11px ${style.fontFamily}`;
  const axis: uPlot.Axis = { stroke: muted, grid: { stroke: line, width: 1 }, ticks: { show: false }, font };
  const paths = bars ? uPlot.paths.bars?.({ size: [0.7, 60] }) : undefined;
  return new uPlot(
    {
      width: Math.max(120, root.clientWidth), height, legend: { show: false }, cursor: { drag: { x: false, y: false } }, padding: [8, 8, 0, 0],
      scales: { x: { time: time ?? true, ...(names ? { range: (_, low, high) => [low - 0.5, high + 0.5] as [number, number] } : {}) }, y: { range: (_, low, high) => [Math.min(0, low), high > low || high > 0 ? Math.max(high * 1.08, low) : 1] } },
      axes: [
        { ...axis, grid: { show: false }, size: 24, values: (_, splits) => splits.map((at) => acrossText(at, time ?? true, splits)), ...(names ? { splits: () => x as number[], values: (_, splits) => splits.map((at) => (names[at] ?? "").slice(0, 14)) } : {}) },
        { ...axis, size: 48 },
      ],
      series: [{}, ...series.map(({ name }, n): uPlot.Series => ({
        label: name, stroke: colour(`series-${(n % 6) + 1}`), width: 1.75, points: { show: false }, ...(paths ? { paths, fill: colour(`series-${(n % 6) + 1}`) } : {}),
      }))],
    },
    [x as number[], ...series.map(({ values }) => values as (number | null)[])],
    root,
  );
};
