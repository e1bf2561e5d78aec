// The node at work: health, tasks, projections, embedding, storage, keys, and its pace.
import type { JSX } from "preact";
import { usePolled } from "../../net/answer";
import type { Ask } from "../../net/send";
import type { Ready } from "../../net/types";
import { Empty, Fault, Section, View } from "../../parts/frame";
import { bytesText, count, kindText, plural, visible } from "../../parts/text";
import { may } from "../../state/session";
import { Doing } from "../review/actions";
import { Keys } from "./keys";
import { Pace } from "./pace";

interface Doctor {
  readonly status: string;
  readonly checks: readonly { name: string; status: string; detail: string }[];
}

interface Task {
  readonly name: string;
  readonly state: string;
  readonly error: string | null;
}

interface Job {
  readonly status: string;
  readonly left_s: number | null;
  readonly error: string | null;
  readonly finished_at: string | null;
  readonly result?: Record<string, unknown> | null;
  readonly events?: number;
  readonly events_total?: number;
  readonly facts?: number;
  readonly facts_total?: number;
  readonly steps?: number;
  readonly steps_total?: number;
}

interface Embeddings {
  readonly enabled: boolean;
  readonly provider: string | null;
  readonly model: string | null;
  readonly dimensions: number | null;
  readonly waiting: number;
  readonly skipped: number;
  readonly vectors: number;
  readonly error: string | null;
  readonly reindex: Job;
}

interface Snapshots {
  readonly snapshots: readonly { position: number; made_at: string | null; bytes: number | null; reason: string | null }[];
  readonly job: Job;
}

interface Storage {
  readonly files: readonly { name: string; holds: string; size_bytes: number }[];
  readonly total_bytes: number;
  readonly free_bytes: number;
}

const SECONDS = 3;
const ASKS: Record<string, Ask> = {
  ready: { path: "/readyz" },
  doctor: { path: "/v1/doctor" },
  tasks: { path: "/v1/admin/tasks" },
  storage: { path: "/v1/admin/storage" },
  embeddings: { path: "/v1/embeddings" },
  rebuild: { path: "/v1/admin/rebuild" },
  snapshots: { path: "/v1/admin/snapshots" },
  metrics: { path: "/metrics" },
};

export const OperationsView = (): JSX.Element => {
  const admin = may("admin");
  const asAdmin = (name: string): Ask | null => (admin ? (ASKS[name] ?? null) : null);
  const ready = usePolled<Ready>(ASKS["ready"] ?? null, SECONDS);
  const doctor = usePolled<Doctor>(ASKS["doctor"] ?? null, 10);
  const tasks = usePolled<{ tasks: readonly Task[] }>(asAdmin("tasks"), SECONDS);
  const storage = usePolled<Storage>(asAdmin("storage"), 10);
  const embeddings = usePolled<Embeddings>(asAdmin("embeddings"), SECONDS);
  const rebuild = usePolled<Job>(asAdmin("rebuild"), 1);
  const snapshots = usePolled<Snapshots>(asAdmin("snapshots"), 2);
  const worst = doctor.data?.checks.some((check) => check.status !== "ok" && check.status !== "warning");
  return (
    <View title="Operations" asks={Object.values(ASKS)} lead={ready.data === null ? "" : `${ready.data.status === "ok" ? "Ready" : "Degraded"}, at event ${count(ready.data.position)}`}>
      <Fault fault={ready.fault} />
      <Section title="Pace" aside={<a href="/docs">what this node can be asked</a>}><Pace /></Section>
      <div class="halves">
        <Section title="Checks" aside={worst ? <span class="tag bad">look here</span> : undefined}>
          <Fault fault={doctor.fault} />
          <ul class="checks">{doctor.data?.checks.map((check) => <li key={check.name}><span class={`tag ${check.status === "ok" ? "good" : check.status === "warning" ? "warn" : "bad"}`}>{check.status}</span> <strong>{kindText(check.name)}</strong> <span class="muted">{visible(check.detail)}</span></li>)}</ul>
        </Section>
        <Section title="Tasks">
          {!admin && <Empty>For admins.</Empty>}
          <Fault fault={tasks.fault} />
          <ul class="checks">{tasks.data?.tasks.map((task) => <li key={task.name}><span class={`tag ${task.error ? "bad" : task.state === "running" ? "good" : ""}`}>{task.error ? "failed" : task.state}</span> <strong>{kindText(task.name)}</strong> {task.error && <span class="muted">{visible(task.error)}</span>}</li>)}</ul>
        </Section>
        <Section title="Embedding">
          {!admin && <Empty>For admins.</Empty>}
          <Fault fault={embeddings.fault} />
          {embeddings.data !== null && <Embedding of={embeddings.data} />}
        </Section>
        <Section title="Rebuild and snapshots">
          {!admin && <Empty>For admins.</Empty>}
          {rebuild.data !== null && <Progress job={rebuild.data} of="events" idle="No rebuild is running." />}
          {snapshots.data !== null && <Progress job={snapshots.data.job} of="steps" idle="" />}
          {admin && (
            <p class="graph-acts">
              <Doing label="Rebuild" title="Rebuild the projections" reason="none" ask={() => ({ method: "POST", path: "/v1/admin/rebuild", body: {} })}><p>The tables are made again from the log beside those in use, compared, and swapped in. The node goes on serving.</p></Doing>
              <Doing label="Take a snapshot" title="Take a snapshot of the tables" reason="none" ask={() => ({ method: "POST", path: "/v1/admin/snapshots", body: {} })} />
            </p>
          )}
          <ul class="checks">{snapshots.data?.snapshots.map((each) => <li key={each.position}>at event <strong>{count(each.position)}</strong> <span class="muted">{each.bytes !== null && bytesText(each.bytes)} {each.reason && visible(each.reason)}</span></li>)}</ul>
        </Section>
        <Section title="Storage" aside={storage.data !== null && <span class="muted">{bytesText(storage.data.total_bytes)}, {bytesText(storage.data.free_bytes)} free</span>}>
          {!admin && <Empty>For admins.</Empty>}
          <Fault fault={storage.fault} />
          {storage.data !== null && <Files storage={storage.data} />}
        </Section>
        <Section title="Projections">
          <Projections ready={ready.data} />
        </Section>
      </div>
      <Section title="Keys"><Keys /></Section>
    </View>
  );
};

const Embedding = ({ of }: { of: Embeddings }): JSX.Element => {
  const all = of.vectors + of.waiting;
  return (
    <div class="stack">
      <p>{of.enabled && of.model ? <><strong>{visible(of.model)}</strong> <span class="muted">by {visible(of.provider ?? "")}, {of.dimensions} dimensions</span></> : "Off: recall compares words alone."}</p>
      {of.enabled && <Meter part={all === 0 ? 1 : of.vectors / all} label={`${count(of.vectors)} of ${plural(all, "live fact")} have their vector`} />}
      {of.skipped > 0 && <p class="muted">{plural(of.skipped, "fact")} were refused by the provider.</p>}
      {of.error && <p class="notice bad"><span>{visible(of.error)}</span></p>}
      <Progress job={of.reindex} of="facts" idle="" />
    </div>
  );
};

const Meter = ({ part, label }: { part: number; label: string }): JSX.Element => (
  <div class="progress">
    <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="bar-ground" width="100" height="8" /><rect class="bar-part" width={100 * Math.min(1, part)} height="8" /></svg>
    <span class="muted">{label}</span>
  </div>
);

const Progress = ({ job, of, idle }: { job: Job; of: "events" | "facts" | "steps"; idle: string }): JSX.Element => {
  const [done, all] = [job[of] ?? 0, job[`${of}_total`] ?? 0];
  if (job.status === "running") return <Meter part={all === 0 ? 0 : done / all} label={`${count(done)} of ${count(all)} ${of}${job.left_s === null ? "" : `, about ${Math.ceil(job.left_s)} s left`}`} />;
  if (job.status === "error") return <p class="notice bad"><span>{visible(job.error ?? "failed")}</span></p>;
  if (job.status === "done") return <p><span class="tag good">done</span> <span class="muted">{job.finished_at}</span></p>;
  return <p class="muted">{idle}</p>;
};

const Files = ({ storage }: { storage: Storage }): JSX.Element => {
  const sums = new Map<string, number>();
  for (const file of storage.files) sums.set(file.holds, (sums.get(file.holds) ?? 0) + file.size_bytes);
  const most = Math.max(1, ...storage.files.map((file) => file.size_bytes));
  const kinds = [...sums].sort((a, b) => b[1] - a[1]);
  return (
    <div class="stack">
      <ul class="legend-line">{kinds.map(([name, bytes], n) => <li key={name}><i class={`dot-${(n % 6) + 1}`} />{name} <span class="muted">{bytesText(bytes)}</span></li>)}</ul>
      <ul class="files">
        {storage.files.slice(0, 14).map((file) => (
          <li key={file.name}><code title={file.name}>{visible(file.name)}</code>
            <svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect class={`fill-${(kinds.findIndex(([name]) => name === file.holds) % 6) + 1}`} width={Math.max(0.5, (100 * file.size_bytes) / most)} height="6" /></svg>
            <span class="figure">{bytesText(file.size_bytes)}</span></li>
        ))}
      </ul>
      {storage.files.length > 14 && <p class="muted">and {plural(storage.files.length - 14, "smaller file")}</p>}
    </div>
  );
};

const Projections = ({ ready }: { ready: Ready | null }): JSX.Element => {
  const all = Object.entries(ready?.projections ?? {});
  const behind = all.filter(([, each]) => each.lag > 0 || each.halted !== null);
  return (
    <div class="stack">
      <p>{behind.length === 0 ? <><span class="tag good">all caught up</span> {plural(all.length, "projection")}</> : <span class="tag warn">{plural(behind.length, "projection")} behind</span>}</p>
      <ul class="checks">{behind.map(([name, each]) => <li key={name}><strong>{kindText(name)}</strong> <span class="muted">{plural(each.lag, "event")} behind{each.halted && `, halted: ${visible(each.halted)}`}</span></li>)}</ul>
      <p class="muted names">{all.map(([name, { version }]) => <code key={name} title={`version ${version}`}>{name}</code>)}</p>
    </div>
  );
};
