// The console's signs, drawn as lines in the colour of the text beside them.
import type { JSX } from "preact";

const PATHS = {
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM16 16l4.5 4.5",
  graph: "M6 7.5a2 2 0 1 0 0-.01M18 6a2 2 0 1 0 0-.01M15 18a2 2 0 1 0 0-.01M8 7.2l8-1M7.2 9l6.6 7.5M17.4 8l-1.9 8",
  time: "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM12 8v4.5l3 2",
  recall: "M4 6h16M4 11h11M4 16h7M17 14l1.2 2.8L21 18l-2.8 1.2L17 22l-1.2-2.8L13 18l2.8-1.2z",
  log: "M5 6h.01M5 12h.01M5 18h.01M9 6h11M9 12h11M9 18h11",
  review: "M5 5h6v14H5zM13 5h6v14h-6zM8 9v2M16 13v2",
  peers: "M7 12a3 3 0 1 0 0-.01M17 6a2.5 2.5 0 1 0 0-.01M17 18a2.5 2.5 0 1 0 0-.01M9.7 10.6l5-3.2M9.7 13.4l5 3.2",
  operations: "M4 18h16M6 18v-5M11 18V6M16 18v-8",
  sql: "M5 6c0-1.5 3-2.5 7-2.5s7 1 7 2.5-3 2.5-7 2.5S5 7.500 5 6zM5 6v12c0 1.500 3 2.500 7 2.500s7-1 7-2.500V6M5 12c0 1.500 3 2.500 7 2.500s7-1 7-2.500",
  start: "M12 3v12M7 8l5-5 5 5M5 20h14",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  play: "M8 5l11 7-11 7z",
  pause: "M8 5v14M16 5v14",
  close: "M6 6l12 12M18 6L6 18",
  key: "M8 12a3.500 3.500 0 1 0 0-.01M11.500 12H21M18 12v3.500",
  link: "M10 14a4 4 0 0 0 6 .4l3-3a4 4 0 0 0-5.700-5.700l-1 1M14 10a4 4 0 0 0-6-.4l-3 3a4 4 0 0 0 5.700 5.700l1-1",
  code: "M9 7l-5 5 5 5M15 7l5 5-5 5",
  theme: "M12 4a8 8 0 1 0 8 8 6 6 0 0 1-8-8z",
  warn: "M12 4l9 16H3zM12 10v4M12 17h.01",
  menu: "M4 7h16M4 12h16M4 17h16",
} as const;

export type IconName = keyof typeof PATHS;

export const Icon = ({ name, size = 18 }: { name: IconName; size?: number }): JSX.Element => (
  <svg class="icon" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true" focusable="false">
    <path d={PATHS[name]} />
  </svg>
);
