// SQL over the log, as table, chart or file, for keys with audit.read.
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { useAnswer } from "../net/answer";
import { fetchAsk, Refused, type Ask } from "../net/send";
import { Chart } from "../parts/chart";
import { Empty, Fault, Section, View } from "../parts/frame";
import { count, plural, visible } from "../parts/text";
import { amend, at, param } from "../state/place";
import { may } from "../state/session";

interface Result {
  readonly columns: readonly { name: string; type: string }[];
  readonly rows: readonly (readonly unknown[])[];
  readonly truncated: boolean;
}

const LIMIT = 1000;
const SHOWN = 300;
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
  const ask: Ask | null = statement === "" || !allowed ? null : { method: "POST", path: "/v1/time-travel/sql", body };
  const { data, fault, waiting } = useAnswer<Result>(ask);
  const run = (): void => amend({ sql: field.current?.value.trim() ?? "" });
  return (
    <View title="SQL" asks={[ask]} lead="One SELECT over the log, read-only, in a process of its own that has your rows and nothing else">
      {!allowed && <p class="notice"><span>This needs a key with the permission <strong>audit.read</strong>.</span></p>}
      <form class="stack" onSubmit={(event) => { event.preventDefault(); run(); }}>
        <textarea ref={field} class="code" key={statement} defaultValue={statement || EXAMPLES[0]?.[1]} rows={6} spellcheck={false} aria-label="SQL statement" disabled={!allowed}
          onKeyDown={(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(); } }} />
        <p class="graph-acts">
          <button class="primary" disabled={!allowed}>Run</button>
          {EXAMPLES.map(([label, sql]) => <button type="button" key={label} class="quiet" disabled={!allowed} onClick={() => amend({ sql })}>{label}</button>)}
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
      {data.rows.length === 0 ? <Empty>No rows.</Empty> : as === "chart" ? <Drawn data={data} /> : <Table data={data} />}
    </Section>
  );
};

const numeric = (type: string): boolean => /INT|DOUBLE|FLOAT|DECIMAL|REAL/.test(type);

const Table = ({ data }: { data: Result }): JSX.Element => {
  const most = data.columns.map(({ type }, n) => (numeric(type) ? Math.max(...data.rows.map((row) => Math.abs(Number(row[n]) || 0))) : 0));
  const measure = (n: number): boolean => numeric(data.columns[n]?.type ?? "") && !/position|seq|year|version/.test(data.columns[n]?.name ?? "") && (most[n] ?? 0) > 0;
  return (
    <div class="scroll tall" tabIndex={0} role="region" aria-label="Rows">
      <table class="table">
        <thead><tr>{data.columns.map(({ name, type }) => <th scope="col" key={name} class={numeric(type) ? "number" : ""} title={type}>{visible(name)}</th>)}</tr></thead>
        <tbody>{data.rows.slice(0, SHOWN).map((row, place) => (
          <tr key={place}>{row.map((cell, n) => (
            <td key={n} class={numeric(data.columns[n]?.type ?? "") ? "number" : ""}>
              {measure(n) && <svg class="cell-bar" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect class="fill-1" width={(100 * Math.abs(Number(cell) || 0)) / (most[n] ?? 1)} height="6" /></svg>}
              {cell === null ? <span class="muted">null</span> : <bdi>{visible(typeof cell === "object" ? JSON.stringify(cell) : String(cell)).slice(0, 300)}</bdi>}
            </td>
          ))}</tr>
        ))}</tbody>
      </table>
      {data.rows.length > SHOWN && <p class="muted">The first {count(SHOWN)} rows; the files have all.</p>}
    </div>
  );
};

/** The first column across, every numeric one after it as a series. */
const Drawn = ({ data }: { data: Result }): JSX.Element => {
  const [across, ...others] = data.columns;
  const chosen = others.map((column, n) => ({ column, n: n + 1 })).filter(({ column }) => numeric(column.type));
  if (across === undefined || chosen.length === 0) return <Empty>A chart needs a column of numbers after the first.</Empty>;
  const first = data.rows.map((row) => row[0]);
  const time = /TIMESTAMP|DATE/.test(across.type);
  const x = time ? first.map((each) => Date.parse(`${String(each).replace(" ", "T").replace(/Z$/, "")}Z`) / 1000) : numeric(across.type) ? first.map(Number) : first.map((_, n) => n);
  const named = !time && !numeric(across.type);
  return (
    <>
      <Chart label="Result" height={340} x={x} time={time} bars={named || data.rows.length < 40} {...(named ? { names: first.map((each) => visible(String(each)).split("/").at(-1) ?? "") } : {})}
        series={chosen.slice(0, 6).map(({ column, n }) => ({ name: column.name, values: data.rows.map((row) => (row[n] === null ? null : Number(row[n]))) }))} />
      <ul class="legend-line">{chosen.slice(0, 6).map(({ column }, n) => <li key={column.name}><i class={`dot-${n + 1}`} />{visible(column.name)}</li>)}</ul>
    </>
  );
};
