// Time for the whole page: one slider over the log, its events as a histogram, play, and now.
import type { JSX, TargetedInputEvent } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Icon } from "../parts/icons";
import { count, dayText, tickText, timeText } from "../parts/text";
import { amend, at } from "../state/place";
import { axis, head, instantAt, looking, span, timeline } from "../state/moments";

const STEPS = 1000;
const FRAME_MS = 650;
const FRAMES = 50;

/** How far along the bar the moment is, 0 to 1. */
const partOf = (ms: number, position: number): number => {
  if (axis.value === "events") return head.value <= 1 ? 1 : Math.max(0, Math.min(1, (position - 1) / (head.value - 1)));
  const whole = span.value;
  return whole === null || whole.endMs === whole.beginMs ? 1 : Math.max(0, Math.min(1, (ms - whole.beginMs) / (whole.endMs - whole.beginMs)));
};

/** The moment at a part of the bar, as the routes take it; the very end is now. */
const momentAt = (part: number): string => {
  if (part >= 1) return "";
  if (axis.value === "events") return `position:${Math.max(1, Math.round(1 + part * (head.value - 1)))}`;
  const whole = span.value;
  if (whole === null) return "";
  const instant = new Date(whole.beginMs + part * (whole.endMs - whole.beginMs));
  const wide = whole.endMs - whole.beginMs > 3 * 86_400_000;
  return wide ? `${instant.toISOString().slice(0, 10)}T00:00:00Z` : instant.toISOString();
};

export const TimeBar = ({ idle }: { idle: boolean }): JSX.Element => {
  const [playing, setPlaying] = useState(false);
  const [dragged, setDragged] = useState<number | null>(null);
  const { ms, position, now } = looking.value;
  const part = dragged ?? (now ? 1 : partOf(ms, position));
  const latest = useRef(part);
  latest.current = part;
  const timer = useRef(0);
  const look = (next: number, quietly: boolean): void => amend({ at: momentAt(next) }, quietly);
  useEffect(() => {
    if (!playing) return;
    const clock = setInterval(() => {
      const next = Math.min(1, latest.current + 1 / FRAMES);
      look(next, true);
      if (next >= 1) setPlaying(false);
    }, FRAME_MS);
    return () => clearInterval(clock);
  }, [playing]);
  const slid = (event: TargetedInputEvent<HTMLInputElement>): void => {
    const next = Number(event.currentTarget.value) / STEPS;
    setPlaying(false);
    setDragged(next);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => {
      setDragged(null);
      look(next, false);
    }, 120);
  };
  const play = (): void => {
    if (!playing && latest.current >= 1) look(0, true);
    setPlaying(!playing);
  };
  const shownMs = dragged === null ? ms : axis.value === "time" ? (span.value?.beginMs ?? 0) + dragged * ((span.value?.endMs ?? 0) - (span.value?.beginMs ?? 0)) : instantAt(1 + dragged * (head.value - 1));
  const label = part >= 1 ? "Now" : dayText(new Date(shownMs).toISOString());
  return (
    <section class={`timebar${now ? "" : " past"}${idle ? " idle" : ""}`} aria-label="Moment looked at">
      <button type="button" class="round" onClick={play} disabled={head.value < 2} aria-label={playing ? "Pause" : "Play the log"} title={playing ? "Pause" : "Play the log"}>
        <Icon name={playing ? "pause" : "play"} size={16} />
      </button>
      <div class="track">
        <Density part={part} />
        <input type="range" min={0} max={STEPS} step={1} value={Math.round(part * STEPS)} onInput={slid} disabled={head.value < 2}
          id="slider" aria-label="Moment" aria-valuetext={part >= 1 ? "now" : timeText(new Date(shownMs).toISOString())} />
        <Ticks />
      </div>
      <div class="reading">
        <output class="moment" for="slider" title={now ? "The newest position of the log" : at.value}>{label}</output>
        <span class="position">{idle && !now ? "this view shows now" : `event ${count(dragged !== null && axis.value === "events" ? Math.round(1 + dragged * (head.value - 1)) : position)} of ${count(head.value)}`}</span>
      </div>
      <div class="time-tools">
        <button type="button" id="now" class={now ? "" : "primary"} disabled={now} onClick={() => { setPlaying(false); setDragged(null); clearTimeout(timer.current); amend({ at: "" }); }}>Now</button>
        <button type="button" class="quiet axis" onClick={() => amend({ axis: axis.value === "time" ? "events" : "time" }, true)}
          title="What the slider moves along">by {axis.value === "time" ? "date" : "event"}</button>
      </div>
    </section>
  );
};

/** Events a bucket, as bars; the part behind the moment is faint. */
const Density = ({ part }: { part: number }): JSX.Element => {
  const line = timeline.value;
  if (line === null || line.positions.length < 2) return <svg class="density" viewBox="0 0 1000 40" aria-hidden="true" />;
  const buckets = axis.value === "time" ? perTime(line.positions) : perEvent(line.positions, line.instants);
  const most = Math.max(1, ...buckets);
  const width = 1000 / buckets.length;
  const height = (events: number): number => (events === 0 ? 0 : Math.max(1.5, 38 * Math.sqrt(events / most)));
  return (
    <svg class="density" viewBox="0 0 1000 40" preserveAspectRatio="none" aria-hidden="true">
      {buckets.map((events, place) => (
        <rect key={place} class={(place + 0.5) / buckets.length <= part ? "known" : "unknown"} x={place * width + width * 0.1}
          width={width * 0.8} y={40 - height(events)} height={height(events)} />
      ))}
    </svg>
  );
};

const perTime = (positions: readonly number[]): number[] =>
  positions.slice(1).map((position, place) => position - (positions[place] ?? 0));

/** Along events the bar says how fast they came: the share of them within each equal step of time. */
const perEvent = (positions: readonly number[], instants: readonly string[]): number[] => {
  const steps = 100;
  const ends = instants.map((each) => new Date(each).getTime());
  const total = positions.at(-1) ?? 1;
  const found: number[] = [];
  for (let n = 0; n < steps; n++) {
    const place = Math.max(1, positions.findIndex((each) => each >= (total * (n + 0.5)) / steps));
    const events = (positions[place] ?? 0) - (positions[place - 1] ?? 0);
    found.push(events / Math.max(1, (ends[place] ?? 0) - (ends[place - 1] ?? 0)));
  }
  return found;
};

const Ticks = (): JSX.Element => {
  const whole = span.value;
  if (whole === null) return <div class="ticks" />;
  const marks = 6;
  const length = whole.endMs - whole.beginMs;
  return (
    <div class="ticks" aria-hidden="true">
      {Array.from({ length: marks }, (_, n) => {
        const ms = axis.value === "time" ? whole.beginMs + (length * n) / (marks - 1) : instantAt(1 + ((head.value - 1) * n) / (marks - 1));
        return <span key={n}>{tickText(ms, length)}</span>;
      })}
    </div>
  );
};
