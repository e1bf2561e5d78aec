// Names and values of an answer, each value drawn by what it is.
import type { JSX } from "preact";
import { NameText, When } from "../../parts/names";
import { count, kindText, visible } from "../../parts/text";

const Cell = ({ name, value }: { name: string; value: unknown }): JSX.Element => {
  if (value === null || value === undefined || value === "") return <span class="muted">–</span>;
  if (typeof value === "number") return <span class="figure">{count(value)}</span>;
  if (typeof value === "string" && /_at$|^since$/.test(name) && !Number.isNaN(Date.parse(value))) return <When at={value} exact />;
  if (typeof value === "string") return /^stigmem:/.test(value) ? <NameText uri={value} /> : <bdi>{visible(value).slice(0, 300)}</bdi>;
  if (Array.isArray(value)) return <bdi>{value.length ? visible(value.join(", ")).slice(0, 300) : "none"}</bdi>;
  return <code>{visible(JSON.stringify(value)).slice(0, 300)}</code>;
};

export const Fields = ({ of }: { of: Record<string, unknown> }): JSX.Element => (
  <dl class="record flat">{Object.entries(of).map(([name, value]) => <div key={name} class={typeof value === "string" && value.length > 40 ? "long" : ""}><dt>{kindText(name)}</dt><dd><Cell name={name} value={value} /></dd></div>)}</dl>
);
