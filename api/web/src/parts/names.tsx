// Names, values and the small bars beside numbers.
import type { JSX } from "preact";
import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import type { Fact, Value as FactValue } from "../net/types";
import { addressOf } from "../state/place";
import { bytesText, clockText, dayText, deceptive, numberText, partsOf, relationText, timeText, visible } from "./text";

/** Hosts that named anything so far. Where there are several, names say theirs. */
const hosts = new Set<string>();
const severalHosts = signal(false);

const noteHost = (host: string): void => {
  if (host === "" || hosts.has(host)) return;
  hosts.add(host);
  if (hosts.size === 2) queueMicrotask(() => (severalHosts.value = true));
};

const NAME_MAX = 160;
const cut = (text: string, max: number): string => (text.length > max ? `${text.slice(0, max)}…` : text);

/** The name without its address, which shows on hover. */
export const NameText = ({ uri }: { uri: string }): JSX.Element => {
  const { host, kind, name } = partsOf(uri);
  noteHost(host);
  const odd = deceptive(uri);
  return (
    <bdi class={odd ? "name odd" : "name"} title={cut(visible(uri), 500)}>
      {kind && <span class="name-kind">{cut(visible(kind), 60)}/</span>}
      <span class="name-own">{cut(visible(name), NAME_MAX)}</span>
      {severalHosts.value && host && <span class="name-host"> {cut(visible(host), 60)}</span>}
      {odd && <span class="tag warn" title="Holds characters that look like others, or that cannot be seen"> look-alike</span>}
    </bdi>
  );
};

export const Name = ({ uri, scope }: { uri: string; scope?: string }): JSX.Element => (
  <a class="name-link" href={addressOf("entity", scope === undefined ? { name: uri } : { name: uri, scope })}>
    <NameText uri={uri} />
  </a>
);

export const Relation = ({ name }: { name: string }): JSX.Element => (
  <bdi class="relation" title={cut(visible(name), 500)}>{cut(visible(relationText(name)), 80)}</bdi>
);

export const When = ({ at, exact = false }: { at: string; exact?: boolean }): JSX.Element => (
  <time class="when" dateTime={at} title={`${timeText(at)} UTC`}>{exact ? timeText(at) : dayText(at)}</time>
);

/** A day and, in fainter letters, the time of day. */
export const Clock = ({ at }: { at: string }): JSX.Element => (
  <time class="when" dateTime={at} title={`${timeText(at)} UTC`}>{dayText(at)} <span class="clock">{clockText(at)}</span></time>
);

const LINES_MAX = 280;

const Long = ({ text }: { text: string }): JSX.Element => {
  const [open, setOpen] = useState(false);
  if (text.length <= LINES_MAX) return <bdi class="words">{visible(text)}</bdi>;
  return (
    <bdi class="words">
      {visible(open ? text : `${text.slice(0, LINES_MAX)}…`)}{" "}
      {open && text.length > 20_000 && <em class="muted">(the first 20,000 characters) </em>}
      <button type="button" class="quiet" aria-expanded={open} onClick={() => setOpen(!open)}>
        {open ? "less" : `all ${bytesText(text.length)}`}
      </button>
    </bdi>
  );
};

/** What a fact says. */
export const Value = ({ value, scope }: { value: FactValue; scope?: string }): JSX.Element => {
  const { type, v } = value;
  if (v === null || v === undefined || type === "null") return <em class="muted">nothing</em>;
  if (type === "ref") return scope === undefined ? <Name uri={String(v)} /> : <Name uri={String(v)} scope={scope} />;
  if (typeof v === "number") return <span class="figure">{numberText(v)}</span>;
  if (typeof v === "boolean") return <span class="figure">{v ? "yes" : "no"}</span>;
  if (type === "datetime") return <When at={String(v)} exact />;
  return <Long text={String(v)} />;
};

export const valueText = ({ type, v }: FactValue): string => {
  if (v === null || v === undefined) return "nothing";
  if (type === "ref") return partsOf(String(v)).name;
  return typeof v === "number" ? numberText(v) : cut(visible(String(v)), 200);
};

/** A number between 0 and 1 as a bar. */
export const Bar = ({ part, label, tone = "" }: { part: number | null; label: string; tone?: string }): JSX.Element | null => {
  if (part === null) return null;
  const width = Math.round(Math.max(0, Math.min(1, part)) * 100);
  return (
    <span class={`bar ${tone}`} title={`${label}: ${part.toFixed(3)}`}>
      <svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
        <rect class="bar-ground" width="100" height="6" rx="3" />
        <rect class="bar-part" width={width} height="6" rx="3" />
      </svg>
      <span class="bar-number"><span class="unseen">{label} </span>{part.toFixed(2)}</span>
    </span>
  );
};

/** What stands about a fact beside what it says. */
export const Marks = ({ fact }: { fact: Fact }): JSX.Element => (
  <>
    {fact.confidence === 0 && <span class="tag">denied</span>}
    {fact.contradicted && <span class="tag bad">in conflict</span>}
    {fact.quarantine_status !== null && <span class="tag warn">quarantine</span>}
    {fact.sanitizer_warnings.length > 0 && <span class="tag warn">flagged</span>}
    {fact.value.interpret_as === "instruction" && <span class="tag warn">instruction</span>}
    {fact.attested === true && <span class="tag good">attested</span>}
    {fact.garden_id !== null && <span class="tag">garden</span>}
    {fact.received_from !== null && <span class="tag">from a peer</span>}
  </>
);
