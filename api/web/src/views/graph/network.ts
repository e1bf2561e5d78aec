// The nodes and edges on the canvas and the forces between them.
import {
  forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY,
  type Simulation, type SimulationLinkDatum, type SimulationNodeDatum,
} from "d3-force";

export interface Dot extends SimulationNodeDatum {
  readonly uri: string;
  readonly group: number;
  degree: number;
  opened: boolean;
}

export interface Line extends SimulationLinkDatum<Dot> {
  readonly key: string;
  readonly relation: string;
  readonly confidence: number;
  readonly trust: number;
  source: Dot;
  target: Dot;
}

export interface Tie {
  readonly from: string;
  readonly to: string;
  readonly relation: string;
  readonly confidence: number;
  readonly trust: number;
}

export const DOTS_MAX = 2_500;
const COOLED = 0.004;

export class Network {
  readonly dots: Dot[] = [];
  readonly lines: Line[] = [];
  private readonly byUri = new Map<string, Dot>();
  private readonly keys = new Set<string>();
  private readonly simulation: Simulation<Dot, Line>;

  constructor(private readonly groupOf: (uri: string) => number) {
    this.simulation = forceSimulation<Dot, Line>([])
      .force("charge", forceManyBody<Dot>().strength(-90).theta(1.1).distanceMax(420))
      .force("link", forceLink<Dot, Line>([]).distance((line) => 42 + 9 * Math.min(8, Math.sqrt(line.source.degree + line.target.degree))).strength(0.35))
      .force("collide", forceCollide<Dot>((dot) => radius(dot) + 3))
      .force("x", forceX<Dot>(0).strength(0.035))
      .force("y", forceY<Dot>(0).strength(0.045))
      .velocityDecay(0.5)
      .stop();
  }

  dot(uri: string): Dot | undefined {
    return this.byUri.get(uri);
  }

  clear(): void {
    this.dots.length = this.lines.length = 0;
    this.byUri.clear();
    this.keys.clear();
    this.settle();
  }

  /** Add what is new; new dots begin beside the one that brought them. */
  add(ties: readonly Tie[], starts: readonly string[] = []): void {
    for (const uri of starts) this.have(uri, null);
    for (const tie of ties) {
      const key = [tie.from, tie.relation, tie.to].join("\n");
      if (this.keys.has(key)) continue;
      const source = this.have(tie.from, this.byUri.get(tie.to) ?? null);
      const target = source === null ? null : this.have(tie.to, source);
      if (source === null || target === null) continue;
      this.keys.add(key);
      source.degree++;
      target.degree++;
      this.lines.push({ key, relation: tie.relation, confidence: tie.confidence, trust: tie.trust, source, target });
    }
    this.settle();
  }

  /** The dot of an entity, made where it is new; null where the canvas is full. */
  private have(uri: string, beside: Dot | null): Dot | null {
    const known = this.byUri.get(uri);
    if (known) return known;
    if (this.dots.length >= DOTS_MAX) return null;
    const turn = this.dots.length * 2.399963;
    const far = beside === null ? 9 * Math.sqrt(this.dots.length) : 26;
    const dot: Dot = {
      uri, group: this.groupOf(uri), degree: 0, opened: false,
      x: (beside?.x ?? 0) + far * Math.cos(turn), y: (beside?.y ?? 0) + far * Math.sin(turn),
    };
    this.dots.push(dot);
    this.byUri.set(uri, dot);
    return dot;
  }

  private settle(): void {
    this.simulation.nodes(this.dots);
    (this.simulation.force("link") as ReturnType<typeof forceLink<Dot, Line>>).links(this.lines);
    this.simulation.alpha(Math.max(this.simulation.alpha(), 0.8));
  }

  warm(alpha: number): void {
    this.simulation.alpha(Math.max(this.simulation.alpha(), alpha));
  }

  /** Move on for at most some milliseconds; false once everything rests. */
  move(budgetMs: number): boolean {
    if (this.simulation.alpha() < COOLED) return false;
    const end = performance.now() + budgetMs;
    do this.simulation.tick();
    while (performance.now() < end && this.simulation.alpha() >= COOLED);
    return true;
  }

  /** The dot at a place, if any. */
  at(x: number, y: number, slack: number): Dot | null {
    const found = this.simulation.find(x, y, 40 + slack);
    if (!found) return null;
    return Math.hypot((found.x ?? 0) - x, (found.y ?? 0) - y) <= radius(found) + slack ? found : null;
  }
}

export const radius = (dot: Dot): number => 4 + Math.min(14, 1.6 * Math.sqrt(dot.degree));
