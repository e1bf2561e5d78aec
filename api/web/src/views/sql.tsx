// SQL over the log, as table, chart or file, for keys with audit.read.
import type { JSX, RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { useAnswer } from "../net/answer";
import { fetchAsk, Refused, type Ask } from "../net/send";
import { Chart } from "../parts/chart";
import { Empty, Fault, Section, View } from "../parts/frame";
import { NameText } from "../parts/names";
import { useInSight, WHOLE } from "../parts/rows";
import { count, plural, visible } from "../parts/text";
import { addressOf, amend, at, param } from "../state/place";
import { may } from "../state/session";

interface Result {
  readonly columns: readonly { name: string; type: string }[];
  readonly rows: readonly (readonly unknown[])[];
  readonly truncated: boolean;
}

const LIMIT = 1000;
/** Of a long answer every row is one line high, in pixels. */
const ROW = 36;
const CELL = 300;
/** What always fits a cell of one line. */
const SHORT = 40;
const EXAMPLES: readonly [string, string][] = [
  ["events a year", "SELECT year(received_at) AS year, count(*) AS events\nFROM events GROUP BY 1 ORDER BY 1"],
  ["kinds", "SELECT kind, count(*) AS events FROM events GROUP BY kind ORDER BY events DESC"],
  ["sources and their confidence", "SELECT source, count(*) AS facts, round(avg(asserted_confidence), 3) AS confidence\nFROM facts GROUP BY source ORDER BY facts DESC LIMIT 20"],
  ["most often retracted", "SELECT entity, relation, count(*) AS times\nFROM facts WHERE to_position IS NOT NULL\nGROUP BY ALL ORDER BY times DESC LIMIT 20"],
];
const VIEWS: readonly [string, string][] = [
  ["events", "position, received_at, kind, actor, fact_ids, entity, relation, value_type, value, source, scope, garden_id, confidence, valid_from, valid_until, detail, event_id, causation_id, origin, stream, stream_seq, recorded_at, peer, hash, erased"],
  ["facts", "fact_id, entity, relation, value, source, scope, asserted_confidence, confidence, from_position, to_position, actor, origin, peer"],
  ["recalls", "fact_id, position, received_at, actor, receipt_id, query, asked_position"],
  ["retractions, resolutions, sweeps", "fact_id, position, received_at, actor, detail"],
];

export const SqlView = (): JSX.Element => {
  const statement = param("sql");
  const field = useRef<HTMLTextAreaElement>(null);
  const allowed = may("audit.read");
  const body = { sql: statement, limit: LIMIT, ...(at.value === "" ? {} : { as_of: at.value }) };
  const asking = (sql: string): Ask => ({ method: "POST", path: "/v1/time-travel/sql", body: { ...body, sql } });
  const ask: Ask | null = statement === "" || !allowed ? null : asking(statement);
  const { data, fault, waiting } = useAnswer<Result>(ask);
  const run = (): void => amend({ sql: field.current?.value.trim() ?? "", order: "" });
  return (
    <View title="SQL" asks={[asking(statement || (EXAMPLES[0]?.[1] ?? ""))]} lead="One SELECT over the log, read-only, in a process of its own that has your rows and nothing else">
      {!allowed && <p class="notice"><span>This needs a key with the permission <strong>audit.read</strong>.</span></p>}
      <form class="stack" onSubmit={(event) => { event.preventDefault(); run(); }}>
        <textarea ref={field} class="code" key={statement} defaultValue={statement || EXAMPLES[0]?.[1]} rows={6} spellcheck={false} aria-label="SQL statement" disabled={!allowed}
          onKeyDown={(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(); } }} />
        <p class="graph-acts">
          <button class="primary" disabled={!allowed}>Run</button>
          {EXAMPLES.map(([label, sql]) => <button type="button" key={label} class="quiet" disabled={!allowed} onClick={() => amend({ sql, order: "" })}>{label}</button>)}
        </p>
      </form>
      <Fault fault={fault} />
      {waiting && <p class="empty" role="status">Running…</p>}
      {data !== null && <Shown data={data} body={body} />}
      <Section title="Tables">
        <dl class="tables">{VIEWS.map(([name, columns]) => <div key={name}><dt><code>{name}</code></dt><dd class="muted">{columns}</dd></div>)}</dl>
      </Section>
    </View>
  );
};

const Shown = ({ data, body }: { data: Result; body: Record<string, unknown> }): JSX.Element => {
  const as = param("as") || "table";
  const [fault, setFault] = useState<Refused | null>(null);
  const save = async (format: "csv" | "parquet"): Promise<void> => {
    const response = await fetchAsk({ method: "POST", path: "/v1/time-travel/sql", body: { ...body, limit: 10_000, format } });
    if (!response.ok) {
      setFault(new Refused(response.status, "", `the download failed with status ${response.status}`));
      return;
    }
    const address = URL.createObjectURL(await response.blob());
    const link = document.createElement("a");
    link.href = address;
    link.download = `answer.${format}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  };
  return (
    <Section title={`${plural(data.rows.length, "row")}${data.truncated ? " and more" : ""}`} aside={
      <span class="graph-acts">
        <span class="choices" role="group" aria-label="Show as">
          {["table", "chart"].map((each) => <button type="button" key={each} aria-pressed={as === each} onClick={() => amend({ as: each })}>{each}</button>)}
        </span>
        <button type="button" class="tool" onClick={() => void save("csv")}>CSV</button>
        <button type="button" class="tool" onClick={() => void save("parquet")}>Parquet</button>
      </span>
    }>
      <Fault fault={fault} />
      {data.rows.length === 0 ? <Empty>No rows.</Empty> : as === "chart" ? <Drawn data={data} /> : <Table key={String(body["sql"])} data={data} />}
    </Section>
  );
};

/** What a cell names: an entity, a fact or an event that has a page. */
const linkOf = (column: string, cell: unknown): string | null => {
  if (typeof cell === "string" && /^stigmem:\/\//.test(cell)) return addressOf("entity", { name: cell });
  if (typeof cell === "string" && column === "fact_id") return addressOf("fact", { id: cell });
  if (typeof cell === "number" && /(^|_)position$/.test(column)) return addressOf("log", { event: String(cell) });
  return null;
};

const Cell = ({ column, cell }: { column: string; cell: unknown }): JSX.Element => {
  if (cell === null) return <span class="muted">null</span>;
  if (column === "fact_ids" && Array.isArray(cell))
    return <>{cell.slice(0, 3).map((id) => <a key={String(id)} class="together" href={addressOf("fact", { id: String(id) })} title={visible(String(id))}>{visible(String(id)).slice(0, 18)}… </a>)}{cell.length > 3 && <span class="muted">and {count(cell.length - 3)} more</span>}</>;
  const link = linkOf(column, cell);
  if (link !== null && typeof cell === "string" && column !== "fact_id") return <a class="name-link" href={link}><NameText uri={cell} /></a>;
  const text = visible(typeof cell === "object" ? JSON.stringify(cell) : String(cell));
  const said = <bdi title={text.length > SHORT ? text.slice(0, 2000) : undefined}>{text.length > CELL ? `${text.slice(0, CELL)}…` : text}</bdi>;
  return link === null ? said : <a href={link}>{said}</a>;
};

const before = (a: unknown, b: unknown): number => {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });
};

const numeric = (type: string): boolean => /INT|DOUBLE|FLOAT|DECIMAL|REAL/.test(type);

const Table = ({ data }: { data: Result }): JSX.Element => {
  const most = data.columns.map(({ type }, n) => (numeric(type) ? Math.max(...data.rows.map((row) => Math.abs(Number(row[n]) || 0))) : 0));
  const measure = (n: number): boolean => numeric(data.columns[n]?.type ?? "") && !/position|seq|year|version/.test(data.columns[n]?.name ?? "") && (most[n] ?? 0) > 0;
  // As in ORDER BY: the number of a column, below zero for the greatest first.
  const chosen = Number(param("order")) || 0;
  const order = chosen === 0 ? null : { n: Math.abs(chosen) - 1, down: chosen < 0 };
  const box = useRef<HTMLDivElement>(null);
  const inSight = useInSight(box, ROW, data.rows.length);
  const whole = data.rows.length <= WHOLE;
  const [begin, end] = whole ? [0, data.rows.length] : inSight;
  useWidest(box);
  const rows = order === null ? data.rows : [...data.rows].sort((a, b) => (order.down ? -1 : 1) * before(a[order.n], b[order.n]));
  const turn = (n: number): void => {
    const down = order?.n !== n ? numeric(data.columns[n]?.type ?? "") : !order.down;
    amend({ order: String(down ? -n - 1 : n + 1) }, true);
  };
  return (
    <div class="scroll tall" tabIndex={0} role="region" aria-label="Rows" ref={box}>
      <table class={whole ? "table" : "table level"} aria-rowcount={rows.length + 1}>
        <thead><tr>{data.columns.map(({ name, type }, n) => (
          <th scope="col" key={name} class={numeric(type) ? "number" : ""} aria-sort={order?.n !== n ? "none" : order.down ? "descending" : "ascending"}>
            <button type="button" class="sort" title={`${type}; orders these rows`} onClick={() => turn(n)}>{visible(name)}<span aria-hidden="true">{order?.n !== n ? "" : order.down ? " ↓" : " ↑"}</span></button>
          </th>
        ))}</tr></thead>
        <tbody>
        {begin > 0 && <tr aria-hidden="true"><td class="gap" colSpan={data.columns.length} style={{ height: `${begin * ROW}px` }} /></tr>}
        {rows.slice(begin, end).map((row, n) => (
          <tr key={begin + n} aria-rowindex={begin + n + 2} style={whole ? {} : { height: `${ROW}px` }}>{row.map((cell, n) => (
            <td key={n} class={numeric(data.columns[n]?.type ?? "") ? "number" : /^(TIMESTAMP|DATE|UUID)/.test(data.columns[n]?.type ?? "") ? "together" : ""}>
              {measure(n) && <svg class="cell-bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect class="fill-1" width={(100 * Math.abs(Number(cell) || 0)) / (most[n] ?? 1)} height="6" /></svg>}
              <Cell column={data.columns[n]?.name ?? ""} cell={cell} />
            </td>
          ))}</tr>
        ))}
        {end < rows.length && <tr aria-hidden="true"><td class="gap" colSpan={data.columns.length} style={{ height: `${(rows.length - end) * ROW}px` }} /></tr>}
        </tbody>
      </table>
    </div>
  );
};

/** Columns never become narrower while the rows in sight change. */
const useWidest = (box: RefObject<HTMLElement | null>): void => {
  useLayoutEffect(() => {
    for (const head of box.current?.querySelectorAll<HTMLElement>("th") ?? []) head.style.minWidth = `${head.offsetWidth}px`;
  });
};

/** The first column across, every numeric one after it as a series. */
const Drawn = ({ data }: { data: Result }): JSX.Element => {
  const [across, ...others] = data.columns;
  const chosen = others.map((column, n) => ({ column, n: n + 1 })).filter(({ column }) => numeric(column.type));
  if (across === undefined || chosen.length === 0) return <Empty>A chart needs a column of numbers after the first.</Empty>;
  const first = data.rows.map((row) => row[0]);
  const time = /TIMESTAMP|DATE/.test(across.type);
  // One number alone makes no axis.
  const named = data.rows.length === 1 || (!time && !numeric(across.type));
  const x = named ? first.map((_, n) => n) : time ? first.map((each) => Date.parse(`${String(each).replace(" ", "T").replace(/Z$/, "")}Z`) / 1000) : first.map(Number);
  return (
    <>
      <Chart label="Result" height={340} x={x} time={time && !named} bars={named || data.rows.length < 40} {...(named ? { names: first.map((each) => visible(String(each)).split("/").at(-1) ?? "") } : {})}
        series={chosen.slice(0, 6).map(({ column, n }) => ({ name: column.name, values: data.rows.map((row) => (row[n] === null ? null : Number(row[n]))) }))} />
      <ul class="legend-line">{chosen.slice(0, 6).map(({ column }, n) => <li key={column.name}><i class={`dot-${n + 1}`} />{visible(column.name)}</li>)}</ul>
    </>
  );
};
