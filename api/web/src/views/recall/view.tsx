// The recall lab: a question, what a model gets for it, and how every score came to be.
import type { JSX } from "preact";
import { useAnswer } from "../../net/answer";
import { Empty, Fault, Section, View } from "../../parts/frame";
import { dayText, timeText, visible } from "../../parts/text";
import { amend, at, param, scope } from "../../state/place";
import { ScopeChoice } from "../../parts/scope";
import { DEMO_QUESTIONS, useDemo } from "../demo";
import { Answered } from "./answer";
import { RECEIPTS, Receipts } from "./receipts";
import type { LabAsks, Profiles } from "./types";

const BUDGET = 2000;
const CANDIDATES = 60;

const asked = (profile: string, moment: string): LabAsks => {
  const question = {
    query: param("q"), scope: scope.value || "*", track: false,
    ...(profile ? { profile } : {}), ...(moment ? { as_of: moment } : {}), ...(param("entity") ? { entity: param("entity") } : {}),
  };
  return {
    lines: { method: "POST", path: "/v1/recall", query: { fields: "compact" }, body: { ...question, token_budget: Number(param("budget")) || BUDGET } },
    all: { method: "POST", path: "/v1/recall", query: { legacy_format: true }, body: { ...question, token_budget: 200_000, limit: CANDIDATES, explain: true } },
  };
};

/** A moment as read: a date where the time of day says nothing. */
const momentText = (text: string): string => (text === "" ? "now" : /T00:00:00Z$/.test(text) ? dayText(text) : /^\d{4}-/.test(text) ? timeText(text) : visible(text));

export const RecallView = (): JSX.Element => {
  const question = param("q");
  const profiles = useAnswer<Profiles>({ path: "/v1/profiles" });
  const names = profiles.data?.profiles.map(({ name }) => name) ?? [];
  const first = question ? asked(param("profile"), at.value) : null;
  const other = question && (param("other") !== "" || param("when") !== "")
    ? asked(param("other") || param("profile"), param("when") === "now" ? "" : param("when") || at.value) : null;
  return (
    <View wide={other !== null} title="Recall" asks={[first?.lines ?? null, first?.all ?? null, other?.lines ?? null, other?.all ?? null, RECEIPTS]} actions={<ScopeChoice />}
      lead="A question, the answer as a model would get it, and where every score comes from">
      <form class="form-line" onSubmit={(event) => {
        event.preventDefault();
        const given = new FormData(event.currentTarget);
        const text = (name: string): string => String(given.get(name) ?? "").trim();
        amend({ q: text("q"), profile: text("profile"), budget: text("budget"), entity: text("entity"), receipt: "" });
      }}>
        <label class="grow">Question <input name="q" key={question} defaultValue={question} required maxLength={4000} autocomplete="off" /></label>
        <label>Profile <Choice name="profile" names={names} value={param("profile")} none="default" /></label>
        <label>Tokens <input name="budget" key={`b${param("budget")}`} type="number" min={1} max={200000} defaultValue={param("budget") || String(BUDGET)} /></label>
        <label>Entity <input name="entity" key={`e${param("entity")}`} defaultValue={param("entity")} size={18} placeholder="any" spellcheck={false} /></label>
        <button class="primary">Recall</button>
      </form>
      {question !== "" && (
        <div class="form-line" role="group" aria-label="Compare with">
          <label>Compare with profile <Choice names={names} value={param("other")} none="the same" onChange={(other) => amend({ other })} /></label>
          <label>or with the moment <input key={`w${param("when")}`} defaultValue={shortMoment(param("when"))} size={24} placeholder="2001-06-01, position:10, now" spellcheck={false}
            onChange={(event) => amend({ when: moment(event.currentTarget.value) })} /></label>
          {other !== null && <button type="button" onClick={() => amend({ other: "", when: "" })}>Stop comparing</button>}
        </div>
      )}
      <Fault fault={profiles.fault} />
      {question === "" && param("receipt") === "" && (
        <Empty>Ask anything. <Examples /></Empty>
      )}
      {first !== null && (
        <div class={other === null ? "" : "side-by-side"}>
          <Answered asks={first} other={other} label={other === null ? "" : `${visible(param("profile") || "default")}, ${momentText(at.value)}`} />
          {other !== null && <Answered asks={other} other={first} label={`${visible(param("other") || param("profile") || "default")}, ${momentText(param("when") === "now" ? "" : param("when") || at.value)}`} />}
        </div>
      )}
      <Section title="Receipts"><Receipts /></Section>
    </View>
  );
};

/** Questions that the demo answers, where it is loaded. */
const Examples = (): JSX.Element => (
  <>{useDemo() === true && DEMO_QUESTIONS.map((each) => <button type="button" class="quiet" key={each} onClick={() => amend({ q: each })}>{each}</button>)}</>
);

/** Midnight as its day. */
const shortMoment = (text: string): string => text.replace(/T00:00:00(\.0+)?Z$/, "");

const moment = (text: string): string => (/^\d{4}-\d\d-\d\d$/.test(text.trim()) ? `${text.trim()}T00:00:00Z` : text.trim());

interface ChoiceProps {
  readonly name?: string;
  readonly names: readonly string[];
  readonly value: string;
  readonly none: string;
  readonly onChange?: (value: string) => void;
}

const Choice = ({ name, names, value, none, onChange }: ChoiceProps): JSX.Element => (
  <select {...(name === undefined ? {} : { name })} key={`${value} ${names.length}`} defaultValue={value} onChange={(event) => onChange?.(event.currentTarget.value)}>
    <option value="">{none}</option>
    {names.map((each) => <option key={each} value={each} selected={each === value}>{visible(each)}</option>)}
  </select>
);
