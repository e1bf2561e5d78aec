// Drawing the network and taking the pointer: drag to move, wheel or pinch to zoom.
import { partsOf, visible } from "../../parts/text";
import { radius, type Dot, type Line, type Network } from "./network";

export interface Picked {
  dot(uri: string, again: boolean): void;
  line(line: Line): void;
  nothing(): void;
}

interface Colours {
  readonly ink: string;
  readonly muted: string;
  readonly paper: string;
  readonly accent: string;
  readonly groups: readonly string[];
  /** From distrusted to trusted. */
  readonly trust: readonly string[];
}

const FRAME_MS = 9;
const TRUST_STEPS = 4;
const TAP_PIXELS = 6;
const AGAIN_MS = 400;
/** The longest that a graph takes to rest unseen. */
const CALM_MS = 1500;

export class Canvas {
  private zoom = 1;
  private x = 0;
  private y = 0;
  private moved = false;
  private frame = 0;
  private hovered: Dot | null = null;
  private colours: Colours;
  private readonly pointers = new Map<number, { x: number; y: number }>();
  private held: Dot | null = null;
  private tap: { uri: string; at: number } | null = null;
  private readonly stop = new AbortController();
  private calmUntil = 0;
  private readonly calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  selected: string | null = null;
  chosen: Line | null = null;

  constructor(private readonly element: HTMLCanvasElement, private readonly network: Network, private readonly picked: Picked) {
    this.colours = readColours(element);
    const on = <K extends keyof HTMLElementEventMap>(name: K, act: (event: HTMLElementEventMap[K]) => void): void =>
      element.addEventListener(name, act, { signal: this.stop.signal, passive: false });
    on("pointerdown", (event) => this.down(event));
    on("pointermove", (event) => this.move(event));
    on("pointerup", (event) => this.up(event));
    on("pointercancel", (event) => this.pointers.delete(event.pointerId));
    on("pointerleave", () => { this.hovered = null; this.wake(); });
    on("wheel", (event) => {
      event.preventDefault();
      this.scale(Math.exp(-event.deltaY * 0.0015), event.offsetX, event.offsetY);
    });
    new ResizeObserver(() => this.wake()).observe(element);
    const theme = new MutationObserver(() => { this.colours = readColours(element); this.wake(); });
    theme.observe(document.documentElement, { attributes: true });
    this.stop.signal.addEventListener("abort", () => theme.disconnect());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.colours = readColours(element); this.wake(); }, { signal: this.stop.signal });
  }

  close(): void {
    this.stop.abort();
    cancelAnimationFrame(this.frame);
  }

  /** Draw again until everything rests. */
  wake(): void {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.draw());
  }

  refit(): void {
    this.moved = false;
    this.calmUntil = performance.now() + CALM_MS;
    this.wake();
  }

  scale(factor: number, x = this.element.clientWidth / 2, y = this.element.clientHeight / 2): void {
    const zoom = Math.max(0.05, Math.min(6, this.zoom * factor));
    const [centreX, centreY] = [x - this.element.clientWidth / 2, y - this.element.clientHeight / 2];
    this.x = centreX - ((centreX - this.x) * zoom) / this.zoom;
    this.y = centreY - ((centreY - this.y) * zoom) / this.zoom;
    this.zoom = zoom;
    this.moved = true;
    this.wake();
  }

  // -- pointer --------------------------------------------------------------------------
  private place(event: PointerEvent): [number, number] {
    return [
      (event.offsetX - this.element.clientWidth / 2 - this.x) / this.zoom,
      (event.offsetY - this.element.clientHeight / 2 - this.y) / this.zoom,
    ];
  }

  private down(event: PointerEvent): void {
    this.element.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    this.dragged = 0;
    this.held = this.pointers.size === 1 ? this.network.at(...this.place(event), 4 / this.zoom) : null;
  }

  private dragged = 0;

  private move(event: PointerEvent): void {
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      const over = this.network.at(...this.place(event), 3 / this.zoom);
      if (over !== this.hovered) { this.hovered = over; this.wake(); }
      this.element.style.cursor = over ? "pointer" : "grab";
      return;
    }
    const [dx, dy] = [event.offsetX - before.x, event.offsetY - before.y];
    this.dragged += Math.abs(dx) + Math.abs(dy);
    if (this.pointers.size === 2) {
      const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, each]) => each);
      if (other) {
        const was = Math.hypot(before.x - other.x, before.y - other.y);
        const now = Math.hypot(event.offsetX - other.x, event.offsetY - other.y);
        if (was > 0) this.scale(now / was, (event.offsetX + other.x) / 2, (event.offsetY + other.y) / 2);
      }
    } else if (this.held && this.dragged > TAP_PIXELS) {
      [this.held.fx, this.held.fy] = this.place(event);
      this.network.warm(0.25);
      this.wake();
    } else if (!this.held) {
      this.x += dx;
      this.y += dy;
      this.moved = true;
      this.wake();
    }
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
  }

  private up(event: PointerEvent): void {
    this.pointers.delete(event.pointerId);
    const held = this.held;
    this.held = null;
    if (held) held.fx = held.fy = null;
    if (this.dragged > TAP_PIXELS) return;
    if (held) {
      const again = this.tap?.uri === held.uri && event.timeStamp - this.tap.at < AGAIN_MS;
      this.tap = { uri: held.uri, at: event.timeStamp };
      this.picked.dot(held.uri, again);
      return;
    }
    const line = this.lineAt(...this.place(event));
    if (line) this.picked.line(line);
    else this.picked.nothing();
  }

  private lineAt(x: number, y: number): Line | null {
    let best: Line | null = null;
    let least = 7 / this.zoom;
    for (const line of this.network.lines) {
      const { x: ax = 0, y: ay = 0 } = line.source;
      const { x: bx = 0, y: by = 0 } = line.target;
      const length = (bx - ax) ** 2 + (by - ay) ** 2;
      const part = length === 0 ? 0 : Math.max(0, Math.min(1, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length));
      const far = Math.hypot(ax + part * (bx - ax) - x, ay + part * (by - ay) - y);
      if (far < least) [best, least] = [line, far];
    }
    return best;
  }

  // -- drawing --------------------------------------------------------------------------
  private draw(): void {
    this.frame = 0;
    const moving = (!this.calm || performance.now() < this.calmUntil) && this.network.move(FRAME_MS);
    const unseen = moving && this.calm && this.held === null;
    this.element.ariaBusy = String(unseen);
    if (unseen) {
      // A reader who wants nothing to move sees it once it rests; the page answers meanwhile.
      this.wake();
      return;
    }
    const { clientWidth: width, clientHeight: height } = this.element;
    const dense = Math.min(2, window.devicePixelRatio || 1);
    if (this.element.width !== Math.round(width * dense) || this.element.height !== Math.round(height * dense)) {
      this.element.width = Math.round(width * dense);
      this.element.height = Math.round(height * dense);
    }
    const pen = this.element.getContext("2d");
    if (!pen) return;
    if (!this.moved) this.fit(width, height);
    pen.setTransform(dense, 0, 0, dense, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.translate(width / 2 + this.x, height / 2 + this.y);
    pen.scale(this.zoom, this.zoom);
    const focus = this.hovered?.uri ?? this.selected;
    this.drawLines(pen, focus);
    this.drawDots(pen, focus);
    this.drawLabels(pen, focus, width, height);
    if (moving) this.wake();
  }

  private fit(width: number, height: number): void {
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const { x = 0, y = 0 } of this.network.dots) {
      left = Math.min(left, x);
      right = Math.max(right, x);
      top = Math.min(top, y);
      bottom = Math.max(bottom, y);
    }
    if (left > right) return;
    // Half of a name hangs over on each side, and one below.
    this.zoom = Math.min(2.4, (width - 120) / Math.max(1, right - left), (height - 80) / Math.max(1, bottom - top));
    this.x = (-(left + right) / 2) * this.zoom;
    this.y = (-(top + bottom) / 2) * this.zoom;
  }

  /** Colour is trust in the source, width is confidence; few strokes, however many lines. */
  private drawLines(pen: CanvasRenderingContext2D, focus: string | null): void {
    for (let trust = 0; trust < TRUST_STEPS; trust++) {
      for (let sure = 0; sure < 3; sure++) {
        pen.beginPath();
        for (const line of this.network.lines) {
          if (Math.min(TRUST_STEPS - 1, Math.floor(line.trust * TRUST_STEPS)) !== trust || Math.min(2, Math.floor(line.confidence * 3)) !== sure) continue;
          pen.moveTo(line.source.x ?? 0, line.source.y ?? 0);
          pen.lineTo(line.target.x ?? 0, line.target.y ?? 0);
        }
        pen.strokeStyle = this.colours.trust[trust] ?? this.colours.muted;
        pen.globalAlpha = focus === null ? 0.5 : 0.18;
        pen.lineWidth = (0.7 + sure * 0.8) / Math.sqrt(this.zoom);
        pen.stroke();
      }
    }
    if (focus === null && this.chosen === null) return;
    pen.globalAlpha = 1;
    pen.beginPath();
    for (const line of this.network.lines) {
      if (line !== this.chosen && line.source.uri !== focus && line.target.uri !== focus) continue;
      pen.moveTo(line.source.x ?? 0, line.source.y ?? 0);
      pen.lineTo(line.target.x ?? 0, line.target.y ?? 0);
    }
    pen.strokeStyle = this.colours.accent;
    pen.lineWidth = 1.8 / Math.sqrt(this.zoom);
    pen.stroke();
  }

  private drawDots(pen: CanvasRenderingContext2D, focus: string | null): void {
    pen.globalAlpha = 1;
    this.colours.groups.forEach((colour, group) => {
      pen.beginPath();
      for (const dot of this.network.dots) {
        if (dot.group !== group) continue;
        const size = radius(dot);
        pen.moveTo((dot.x ?? 0) + size, dot.y ?? 0);
        pen.arc(dot.x ?? 0, dot.y ?? 0, size, 0, 7);
      }
      pen.fillStyle = colour;
      pen.fill();
      pen.strokeStyle = this.colours.paper;
      pen.lineWidth = 1.5;
      pen.stroke();
    });
    for (const dot of this.network.dots) {
      if (dot.uri !== focus && dot.uri !== this.selected && !dot.opened) continue;
      pen.beginPath();
      pen.arc(dot.x ?? 0, dot.y ?? 0, radius(dot) + 3, 0, 7);
      pen.strokeStyle = dot.uri === this.selected ? this.colours.accent : this.colours.muted;
      pen.lineWidth = dot.uri === this.selected ? 2.5 : 1;
      pen.stroke();
    }
  }

  /** Names of what is pointed at first, then of the best connected, where there is room. */
  private drawLabels(pen: CanvasRenderingContext2D, focus: string | null, width: number, height: number): void {
    const near = new Set<string>();
    if (focus !== null) for (const line of this.network.lines) {
      if (line.source.uri === focus) near.add(line.target.uri);
      if (line.target.uri === focus) near.add(line.source.uri);
    }
    const first = (dot: Dot): number => (dot.uri === focus ? 1e6 : near.has(dot.uri) ? 1e5 : 0) + dot.degree;
    const named = [...this.network.dots].sort((a, b) => first(b) - first(a)).slice(0, 160);
    const size = 12 / this.zoom;
    pen.textAlign = "center";
    pen.textBaseline = "top";
    pen.lineJoin = "round";
    const taken: [number, number, number, number][] = [];
    for (const dot of named) {
      const x = (dot.x ?? 0) * this.zoom + width / 2 + this.x;
      const y = ((dot.y ?? 0) + radius(dot) + 2) * this.zoom + height / 2 + this.y;
      if (x < -40 || x > width + 40 || y < -20 || y > height + 20) continue;
      const label = visible(partsOf(dot.uri).name).slice(0, 32);
      const half = label.length * 3.4;
      const box: [number, number, number, number] = [x - half, y, x + half, y + 14];
      const forced = dot.uri === focus;
      if (!forced && taken.some(([l, t, r, b]) => box[0] < r && box[2] > l && box[1] < b && box[3] > t)) continue;
      taken.push(box);
      pen.globalAlpha = focus === null || forced || near.has(dot.uri) ? 1 : 0.45;
      pen.font = `${forced ? 700 : 500} ${size}px system-ui, sans-serif`;
      pen.strokeStyle = this.colours.paper;
      pen.lineWidth = 4 / this.zoom;
      pen.strokeText(label, dot.x ?? 0, (dot.y ?? 0) + radius(dot) + 2);
      pen.fillStyle = this.colours.ink;
      pen.fillText(label, dot.x ?? 0, (dot.y ?? 0) + radius(dot) + 2);
    }
    pen.globalAlpha = 1;
  }
}

/** The palette as the style sheet has it now. */
const readColours = (element: HTMLElement): Colours => {
  const probe = document.createElement("i");
  probe.hidden = true;
  element.parentElement?.append(probe);
  const colour = (name: string): string => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const found = {
    ink: colour("ink"), muted: colour("muted"), paper: colour("sheet"), accent: colour("accent"),
    groups: [1, 2, 3, 4, 5, 6].map((n) => colour(`series-${n}`)),
    trust: ["bad", "series-2", "firm", "series-1"].map(colour),
  };
  probe.remove();
  return found;
};
