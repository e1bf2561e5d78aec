// The graph: entities and what ties them together, from any start, at the chosen moment.
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useAnswer } from "../../net/answer";
import { Refused, send, type Ask } from "../../net/send";
import type { Fact, FactPage, Neighbours } from "../../net/types";
import { Empty, Fault, View } from "../../parts/frame";
import { Bar, Name, NameText, Relation, When } from "../../parts/names";
import { ScopeChoice } from "../../parts/scope";
import { count, partsOf, plural } from "../../parts/text";
import { addressOf, amend, momentQuery, param, scope } from "../../state/place";
import { me } from "../../state/session";
import { Canvas } from "./canvas";
import { DOTS_MAX, Network, type Line, type Tie } from "./network";

const RECENT = 500;
const PAGE = 200;
const GROUPS = 6;

export const GraphView = (): JSX.Element => {
  const start = param("from");
  const opened = useMemo(() => param("open").split("\n").filter(Boolean), [param("open")]);
  const selected = param("on") || start || null;
  const setSelected = (uri: string | null): void => amend({ on: uri ?? "", edge: "" }, true);
  const setLine = (line: Line): void => amend({ on: "", edge: line.key }, true);
  const [fault, setFault] = useState<Refused | null>(null);
  const [size, setSize] = useState<[number, number]>([0, 0]);
  const [left, setLeft] = useState(0);
  const kinds = useRef(new Map<string, number>());
  const network = useRef<Network | null>(null);
  const drawing = useRef<Canvas | null>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  network.current ??= new Network((uri) => {
    const { kind } = partsOf(uri);
    const known = kinds.current.get(kind);
    if (known !== undefined) return known;
    kinds.current.set(kind, kinds.current.size % GROUPS);
    return kinds.current.get(kind) ?? 0;
  });
  const net = network.current;
  const line = net.lines.find(({ key }) => key === param("edge")) ?? null;

  useEffect(() => {
    if (canvas.current === null) return;
    const made = new Canvas(canvas.current, net, {
      dot: (uri, again) => {
        setSelected(uri);
        if (again) open(uri);
      },
      line: setLine,
      nothing: () => setSelected(null),
    });
    drawing.current = made;
    return () => made.close();
  }, []);

  const open = (uri: string): void => {
    const before = param("open").split("\n").filter(Boolean);
    if (param("from") === "") amend({ from: uri });
    else if (!before.includes(uri) && uri !== param("from")) amend({ open: [...before, uri].join("\n") });
  };

  const who = me.value;
  const scopes = scope.value ? [scope.value] : who === null || who === "none" ? [] : who.scopes;
  const asked = JSON.stringify([start, opened, scopes, momentQuery.value]);
  const newest = useRef(0);
  const shown = useRef("");
  useEffect(() => {
    if (scopes.length === 0) return;
    const token = ++newest.current;
    const ground = JSON.stringify([start, scopes, momentQuery.value]);
    // The same ground with one entity more open: what is there stays where it is.
    if (shown.current !== ground) net.clear();
    shown.current = ground;
    setFault(null);
    const done = (ties: readonly Tie[], starts: readonly string[]): void => {
      if (token !== newest.current) return;
      net.add(ties, starts);
      for (const uri of [start, ...opened]) { const dot = net.dot(uri); if (dot) dot.opened = true; }
      setSize([net.dots.length, net.lines.length]);
      drawing.current?.refit();
    };
    const work = start === "" ? recent(scope.value, done) : around([start, ...opened], scopes, done, setLeft, () => token !== newest.current);
    work.catch((error: unknown) => token === newest.current && setFault(error instanceof Refused ? error : new Refused(0, "", String(error))));
  }, [asked]);
  useEffect(() => {
    if (drawing.current === null) return;
    drawing.current.selected = selected;
    drawing.current.chosen = line;
    drawing.current.wake();
  }, [selected, line]);

  const ask: Ask = start === ""
    ? { path: "/v1/facts", query: { scope: scope.value, include_contradicted: true, limit: RECENT, ...momentQuery.value } }
    : { path: "/v1/graph/neighbors", query: { entity: start, scope: scopes[0] ?? "", page_size: PAGE, ...momentQuery.value } };
  return (
    <View wide title={start === "" ? "Graph" : <>Graph from <NameText uri={start} /></>} asks={[ask]}
      lead={start === "" ? `What the newest ${RECENT} facts tie together. Choose an entity to begin from it.` : "Select an entity, and open it to see its own neighbours."}
      actions={<>
        {start !== "" && <a class="tool" href={addressOf("graph")}>Newest</a>}
        <ScopeChoice />
      </>}>
      <Fault fault={fault} />
      <div class="graph">
        <div class="graph-stage">
          <canvas ref={canvas} role="img" aria-label={`A graph of ${plural(size[0], "entity", "entities")} and ${plural(size[1], "edge")}; the list beside it names them`} />
          <div class="graph-tools">
            <button type="button" onClick={() => drawing.current?.scale(1.35)} aria-label="Closer">+</button>
            <button type="button" onClick={() => drawing.current?.scale(0.74)} aria-label="Farther">−</button>
            <button type="button" onClick={() => drawing.current?.refit()} aria-label="Show everything">◻</button>
          </div>
          <p class="graph-size" role="status">{plural(size[0], "entity", "entities")}, {plural(size[1], "edge")}{left > 0 && `; ${count(left)} more are not drawn`}{size[0] >= DOTS_MAX && "; the canvas is full"}</p>
          <div class="graph-key" aria-hidden="true">
            {[...kinds.current].slice(0, 8).map(([kind, group]) => <span key={kind}><i class={`dot-${group + 1}`} />{kind || "other"}</span>)}
          </div>
        </div>
        <aside class="graph-side" aria-label="Selected">
          {line !== null ? <Edge line={line} close={() => setSelected(line.source.uri)} /> : selected !== null ? <Chosen uri={selected} net={net} open={open} opened={selected === start || opened.includes(selected)} pick={setSelected} pickLine={setLine} />
            : <Best net={net} pick={(uri) => { setSelected(uri); }} size={size[0]} />}
          <dl class="legend">
            <div><dt>width</dt><dd>confidence in the edge</dd></div>
            <div><dt>colour of an edge</dt><dd><i class="edge-bad" />distrusted <i class="edge-good" />trusted source</dd></div>
          </dl>
        </aside>
      </div>
    </View>
  );
};

type Done = (ties: readonly Tie[], starts: readonly string[]) => void;

/** The ties among the newest facts. */
const recent = async (chosen: string, done: Done): Promise<void> => {
  const page = await send<FactPage>({ path: "/v1/facts", query: { scope: chosen, include_contradicted: true, limit: RECENT, ...momentQuery.value } });
  done(page.facts.flatMap(tieOf), []);
};

const tieOf = (fact: Fact): Tie[] =>
  fact.value.type !== "ref" || typeof fact.value.v !== "string" ? []
    : [{ from: fact.entity, to: fact.value.v, relation: fact.relation, confidence: fact.confidence, trust: fact.source_trust ?? 1 }];

/** Neighbours of each entity in each scope, page after page while there is room. */
const around = async (entities: readonly string[], scopes: readonly string[], done: Done, setLeft: (left: number) => void, stale: () => boolean): Promise<void> => {
  setLeft(0);
  done([], [...entities]);
  let drawn = 0;
  await Promise.all(entities.flatMap((entity) => scopes.map(async (each) => {
    let cursor: string | null = null;
    do {
      const page: Neighbours = await send<Neighbours>({
        path: "/v1/graph/neighbors", query: { entity, scope: each, page_size: PAGE, cursor, ...(cursor === null ? momentQuery.value : {}) },
      });
      if (stale()) return;
      done(page.neighbors.map((near) => ({ from: entity, to: near.entity, relation: near.relation, confidence: near.confidence, trust: near.source_trust })), []);
      drawn += page.neighbors.length;
      cursor = page.next_cursor;
      if (cursor !== null && drawn >= DOTS_MAX) {
        setLeft(page.total_hint - drawn);
        return;
      }
    } while (cursor !== null);
  })));
};

const Best = ({ net, pick, size }: { net: Network; pick: (uri: string) => void; size: number }): JSX.Element => {
  const best = [...net.dots].sort((a, b) => b.degree - a.degree).slice(0, 25);
  return (
    <>
      <h2>Best connected</h2>
      {size === 0 && <Empty>Nothing ties anything together at this moment.</Empty>}
      <ol class="picks">
        {best.map((dot) => (
          <li key={dot.uri}><button type="button" class="quiet" onClick={() => pick(dot.uri)}><NameText uri={dot.uri} /></button> <span class="muted">{plural(dot.degree, "edge")}</span></li>
        ))}
      </ol>
    </>
  );
};

interface ChosenProps {
  readonly uri: string;
  readonly net: Network;
  readonly open: (uri: string) => void;
  readonly opened: boolean;
  readonly pick: (uri: string) => void;
  readonly pickLine: (line: Line) => void;
}

const Chosen = ({ uri, net, open, opened, pick, pickLine }: ChosenProps): JSX.Element => {
  const lines = net.lines.filter((line) => line.source.uri === uri || line.target.uri === uri).slice(0, 200);
  return (
    <>
      <h2><NameText uri={uri} /></h2>
      <p class="graph-acts">
        <button type="button" class="primary" disabled={opened} onClick={() => open(uri)}>{opened ? "Open" : "Open its neighbours"}</button>
        <a class="tool" href={addressOf("entity", { name: uri })}>Facts</a>
        <a class="tool" href={addressOf("graph", { from: uri })}>Begin here</a>
      </p>
      <ul class="picks">
        {lines.map((line) => {
          const other = line.source.uri === uri ? line.target : line.source;
          return <li key={line.key}><button type="button" class="quiet plain" title="What was said of this edge over time" onClick={() => pickLine(line)}><Relation name={line.relation} /></button> <button type="button" class="quiet" onClick={() => pick(other.uri)}><NameText uri={other.uri} /></button></li>;
        })}
      </ul>
    </>
  );
};

/** An edge, and what was said of it over time. */
const Edge = ({ line, close }: { line: Line; close: () => void }): JSX.Element => {
  const history = (entity: string): Ask => ({
    path: "/v1/facts",
    query: { entity, relation: line.relation, include_contradicted: true, include_retracted: true, include_expired: true, limit: 200, ...momentQuery.value },
  });
  const out = useAnswer<FactPage>(history(line.source.uri));
  const back = useAnswer<FactPage>(history(line.target.uri));
  const ends = new Set([line.source.uri, line.target.uri]);
  const said = [...(out.data?.facts ?? []), ...(back.data?.facts ?? [])].filter((fact) => fact.value.type === "ref" && ends.has(String(fact.value.v)) && ends.has(fact.entity));
  const first = said[0];
  return (
    <>
      <div class="sheet-head"><h2><Relation name={line.relation} /></h2><button type="button" class="tool" onClick={close}>Close</button></div>
      <p><Name uri={first?.entity ?? line.source.uri} /> → <Name uri={first ? String(first.value.v) : line.target.uri} /></p>
      <p class="graph-acts"><Bar part={line.confidence} label="confidence" /> <Bar part={line.trust} label="trust" tone="trust" /></p>
      <h3>Its history up to this moment</h3>
      <Fault fault={out.fault ?? back.fault} />
      <ol class="life">
        {said.map((fact) => (
          <li key={fact.id} class={fact.confidence === 0 ? "life-fact_retracted" : ""}>
            <a href={addressOf("fact", { id: fact.id })}><When at={fact.timestamp} /></a> says <NameText uri={fact.source} />{fact.confidence === 0 && <span class="tag">ended</span>}
          </li>
        ))}
      </ol>
    </>
  );
};
