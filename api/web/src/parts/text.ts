// How names, values, times and numbers are written. All of it is text for a text node.

/** Characters that change how text around them looks, or that cannot be seen: shown by number. */
const UNSEEN =
  /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u00AD\u034F\u061C\u115F\u1160\u17B4\u17B5\u180B-\u180E\u200B-\u200F\u2028-\u202E\u2060-\u206F\u3164\uFE00-\uFE0F\uFEFF\uFFA0\uFFF0-\uFFFB]|\uDB40[\uDC00-\uDFFF]/g;

const SHOWN_MAX = 20_000;

/** The text with what cannot be seen made visible. A joiner inside an emoji stays. */
export const visible = (text: string): string =>
  text
    .slice(0, SHOWN_MAX)
    .replace(UNSEEN, (each, place: number, whole: string) =>
      /[\u200D\uFE0F]/.test(each) && /\p{Extended_Pictographic}|\uFE0F/u.test(whole.slice(Math.max(0, place - 2), place))
        ? each
        : `⟨U+${(each.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`,
    );

const SCRIPTS = /\p{Script=Cyrillic}|\p{Script=Greek}|\p{Script=Armenian}|\p{Script=Cherokee}/u;
const FULL_WIDTH = /[\uFF01-\uFF5E\u{1D400}-\u{1D7FF}]/u;

/** Whether a name may be taken for another: unseen characters, or Latin mixed with letters of a
 * script that looks like it. */
export const deceptive = (name: string): boolean => {
  UNSEEN.lastIndex = 0;
  if (UNSEEN.test(name) || FULL_WIDTH.test(name)) return true;
  return name.split(/[/:\s]/).some((part) => SCRIPTS.test(part) && /[a-z]/i.test(part));
};

export interface Parts {
  readonly host: string;
  readonly kind: string;
  readonly name: string;
}

/** `stigmem://host/user/alice` as host, kind and name; `agent:a` as kind and name. */
export const partsOf = (uri: string): Parts => {
  const match = /^[a-z][a-z0-9+.-]*:\/\/([^/]*)\/(.*)$/is.exec(uri);
  if (match) {
    const [, host = "", path = ""] = match;
    const cut = path.lastIndexOf("/");
    return cut < 0 ? { host, kind: "", name: path || host } : { host, kind: path.slice(0, cut), name: path.slice(cut + 1) || path };
  }
  const cut = uri.lastIndexOf(":");
  if (cut > 0 && cut < uri.length - 1 && !/\s/.test(uri)) return { host: "", kind: uri.slice(0, cut), name: uri.slice(cut + 1) };
  return { host: "", kind: "", name: uri };
};

export const shortName = (uri: string): string => partsOf(uri).name;

/** `space:moon-count` as "moon count". */
export const relationText = (relation: string): string => {
  const cut = relation.lastIndexOf(":");
  return relation.slice(cut + 1).replaceAll(/[-_]/g, " ");
};

export const kindText = (kind: string): string => kind.replaceAll("_", " ");

const COUNT = new Intl.NumberFormat("en");
export const count = (number: number): string => COUNT.format(number);
export const plural = (number: number, one: string, many = `${one}s`): string =>
  `${count(number)} ${number === 1 ? one : many}`;

export const bytesText = (bytes: number): string => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let size = bytes;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) [size, unit] = [size / 1024, unit + 1];
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
};

const LARGE = new Intl.NumberFormat("en", { maximumSignificantDigits: 12 });
/** Thousands apart from 10,000 on; a year stays as it is. */
export const numberText = (value: number): string =>
  Math.abs(value) >= 10_000 && Math.abs(value) < 1e15 ? LARGE.format(value) : Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(10)));

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (number: number): string => String(number).padStart(2, "0");

/** All times are UTC, as the log's are. */
export const dayText = (instant: string): string => {
  const date = new Date(instant);
  if (Number.isNaN(date.getTime())) return instant;
  return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()}`;
};

export const clockText = (instant: string): string => {
  const date = new Date(instant);
  return Number.isNaN(date.getTime()) ? "" : `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}:${two(date.getUTCSeconds())}`;
};

export const timeText = (instant: string): string => (clockText(instant) === "" ? instant : `${dayText(instant)}, ${clockText(instant)}`);

/** As short as can be for the span it is part of. */
export const tickText = (milliseconds: number, spanMs: number): string => {
  const date = new Date(milliseconds);
  const day = 86_400_000;
  if (spanMs > 4 * 365 * day) return String(date.getUTCFullYear());
  if (spanMs > 90 * day) return `${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()}`;
  if (spanMs > 2 * day) return `${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]}`;
  const clock = `${two(date.getUTCHours())}:${two(date.getUTCMinutes())}`;
  return spanMs > 10 * 60_000 ? clock : `${clock}:${two(date.getUTCSeconds())}`;
};

export const agoText = (instant: string): string => {
  const seconds = Math.max(0, (Date.now() - new Date(instant).getTime()) / 1000);
  const steps: [number, string][] = [[60, "second"], [3600, "minute"], [86_400, "hour"], [86_400 * 60, "day"], [86_400 * 730, "month"], [Infinity, "year"]];
  const sizes = [1, 60, 3600, 86_400, 86_400 * 30.4, 86_400 * 365.25];
  const step = steps.findIndex(([limit]) => seconds < limit);
  return `${plural(Math.floor(seconds / (sizes[step] ?? 1)), steps[step]?.[1] ?? "year")} ago`;
};
