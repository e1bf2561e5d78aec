// An empty memory, and four ways to put something into it.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useAnswer, written } from "../net/answer";
import type { Ask } from "../net/send";
import { Section, View } from "../parts/frame";
import { count, plural, visible } from "../parts/text";
import { addressOf, go } from "../state/place";
import { may, me } from "../state/session";
import { useDemo } from "./demo";
import { loadLines, notesOf, type Progress } from "./loading";

interface Connectors {
  readonly connectors: readonly { editor: string; label: string; config_path: string }[];
  readonly command: readonly string[];
  readonly env: Record<string, string>;
}

const SCOPES = ["local", "team", "company", "public"];
const DEMO = "/ui/demo.jsonl";

export const StartView = (): JSX.Element => <StartHere again />;

export const StartHere = ({ again = false }: { again?: boolean }): JSX.Element => {
  const ask: Ask = { path: "/v1/mcp/connectors" };
  const { data } = useAnswer<Connectors>(ask);
  const loaded = useDemo();
  const [progress, setProgress] = useState<Progress | null>(null);
  const [fault, setFault] = useState("");
  const who = me.value;
  const source = who === null || who === "none" ? "" : who.entity_uri;
  const scopes = who === null || who === "none" ? [] : SCOPES.filter((each) => who.scopes.includes(each));
  const busy = progress !== null && !progress.done;

  const load = async (lines: AsyncIterable<unknown[]> | (() => Promise<string>), then: string): Promise<void> => {
    setFault("");
    setProgress({ sent: 0, total: 0, refused: 0, first: "", done: false });
    try {
      await loadLines(lines, setProgress);
      written.value++;
      go(then);
    } catch (error) {
      setProgress(null);
      setFault(error instanceof Error ? error.message : String(error));
    }
  };
  const file = async (chosen: File): Promise<void> => {
    const text = await chosen.text();
    if (/\.(jsonl|ndjson)$/i.test(chosen.name)) await load(async () => text, addressOf("search", { q: "", at: "" }));
    else await load(notesOf(text, chosen.name, source, scopes[0] ?? "local"), addressOf("search", { q: "", at: "" }));
  };
  return (
    <View title={again ? "Bring something in" : "This memory is empty"} asks={[ask]} lead="Four ways to put something into it">
      {fault && <p class="notice bad" role="alert"><span>{visible(fault)}</span></p>}
      {progress !== null && (
        <p class="notice" role="status"><span>{progress.done ? "Done: " : ""}{count(progress.sent)}{progress.total > 0 && ` of ${count(progress.total)}`} written{progress.refused > 0 && `, ${count(progress.refused)} refused (${visible(progress.first)})`}</span></p>
      )}
      {!may("write") && <p class="notice warn"><span>Your key does not allow writing.</span></p>}
      <div class="ways">
        <Section title="Sixty-eight years of space flight">
          <p>Real, dated history with sources that disagree: 4,630 facts to search, draw and settle.</p>
          {loaded === true ? (
            <p class="muted">It is in this memory already. A second time, it would state again what its history ended.</p>
          ) : (
            <>
              <p><button type="button" class="primary" disabled={busy || loaded === null || !may("write")} onClick={() => void load(async () => (await fetch(DEMO)).text(), addressOf("search", { q: "", at: "" }))}>Load the demo here</button></p>
              <p class="muted">Everything is received today. <code>engramlog demo</code> makes a node of its own whose log reaches back to 1957.</p>
            </>
          )}
        </Section>
        <Section title="A note">
          <form class="fields" onSubmit={(event) => {
            event.preventDefault();
            const given = new FormData(event.currentTarget);
            void load(notesOf(String(given.get("text")), String(given.get("about")), source, String(given.get("scope"))), addressOf("search", { q: "", at: "" }));
          }}>
            <label>Text, a fact for each paragraph<textarea name="text" rows={5} required maxLength={200_000} /></label>
            <div class="form-line">
              <label class="grow">About<input name="about" required maxLength={200} defaultValue="my notes" autocomplete="off" /></label>
              <label>Scope<select name="scope">{scopes.map((each) => <option key={each}>{each}</option>)}</select></label>
              <button class="primary" disabled={busy || !may("write")}>Remember</button>
            </div>
          </form>
        </Section>
        <Section title="A file">
          <label class="drop" onDragOver={(event) => event.preventDefault()} onDrop={(event) => {
            event.preventDefault();
            const dropped = event.dataTransfer?.files[0];
            if (dropped) void file(dropped);
          }}>
            <span>Choose a file, or drop it here</span>
            <input type="file" accept=".jsonl,.ndjson,.txt,.md" disabled={busy || !may("write")} onChange={(event) => {
              const chosen = event.currentTarget.files?.[0];
              if (chosen) void file(chosen);
            }} />
          </label>
          <p class="muted">Lines of JSON, each a fact (<code>entity</code>, <code>relation</code>, <code>value</code>, <code>source</code>), or plain text. <code>engramlog import FILE</code> takes whole logs.</p>
        </Section>
        <Section title="An agent, over MCP">
          <p>Give your editor or agent this server:</p>
          <pre class="command" tabIndex={0}>{data === null ? "…" : shownLines(JSON.stringify({ mcpServers: { engramlog: { command: data.command[0], args: data.command.slice(1), env: data.env } } }, null, 2))}</pre>
          <p class="muted">{plural(data?.connectors.length ?? 0, "editor")} known: {data?.connectors.map(({ label, config_path }) => `${label} (${config_path})`).join(", ")}.</p>
        </Section>
      </div>
    </View>
  );
};

const shownLines = (text: string): string => text.split("\n").map(visible).join("\n");
