// The node's own counters as small charts, from the moment this view was opened.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { fetchAsk } from "../../net/send";
import { Chart } from "../../parts/chart";

interface Sample {
  readonly at: number;
  readonly requests: number;
  readonly seconds: number;
  readonly counted: number;
  readonly position: number;
  readonly waiting: number;
}

const EVERY_MS = 2000;
const KEPT = 150;

const read = (text: string): Sample => {
  const sums: Record<string, number> = {};
  for (const line of text.split("\n")) {
    // Routes have braces of their own: route="/v1/facts/{fact_id}".
    const match = /^([a-z_]+)(?:\{.*\})? ([0-9.e+-]+)$/.exec(line);
    if (match?.[1]) sums[match[1]] = (sums[match[1]] ?? 0) + Number(match[2]);
  }
  const of = (name: string): number => sums[`engramlog_${name}`] ?? 0;
  return {
    at: Date.now() / 1000, requests: of("http_requests_total"), seconds: of("http_request_seconds_sum"), counted: of("http_request_seconds_count"),
    position: of("log_position"), waiting: of("writer_waiting"),
  };
};

export const Pace = (): JSX.Element => {
  const [samples, setSamples] = useState<readonly Sample[]>([]);
  useEffect(() => {
    let gone = false;
    const look = async (): Promise<void> => {
      if (document.hidden) return;
      try {
        const text = await (await fetchAsk({ path: "/metrics" })).text();
        if (!gone) setSamples((before) => [...before, read(text)].slice(-KEPT));
      } catch {
        // The bar at the top says that the node does not answer.
      }
    };
    void look();
    const timer = setInterval(() => void look(), EVERY_MS);
    return () => {
      gone = true;
      clearInterval(timer);
    };
  }, []);
  const steps = samples.slice(1).map((now, place) => ({ now, before: samples[place] ?? now }));
  const x = steps.map(({ now }) => now.at);
  const rate = (of: (sample: Sample) => number): (number | null)[] =>
    steps.map(({ now, before }) => Math.max(0, of(now) - of(before)) / Math.max(0.001, now.at - before.at));
  const latency = steps.map(({ now, before }) => (now.counted > before.counted ? (1000 * (now.seconds - before.seconds)) / (now.counted - before.counted) : null));
  const charts: [string, (number | null)[]][] = [
    ["events a second", rate((sample) => sample.position)],
    ["requests a second", rate((sample) => sample.requests)],
    ["milliseconds an answer", latency],
    ["commands waiting", steps.map(({ now }) => now.waiting)],
  ];
  return (
    <div class="pace">
      {charts.map(([label, values]) => (
        <figure key={label}>
          <figcaption>{label} <strong class="figure">{values.at(-1) === null || values.at(-1) === undefined ? "–" : Number(values.at(-1)?.toPrecision(3))}</strong></figcaption>
          {steps.length < 2 ? <p class="pace-wait muted">measured from now on</p> : <Chart label={label} x={x} series={[{ name: label, values }]} />}
        </figure>
      ))}
    </div>
  );
};
