// What every view has: a title, its machine form, a link that holds, and words for when there is
// nothing, too little right, or a fault.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { addressOfAsk, fetchAsk, type Ask, type Refused } from "../net/send";
import { key } from "../state/session";
import { bytesText, visible } from "./text";
import { Icon } from "./icons";
import { pinnedAddress } from "../state/moments";

interface ViewProps {
  title: ComponentChildren;
  lead?: ComponentChildren;
  asks: readonly (Ask | null)[];
  actions?: ComponentChildren;
  wide?: boolean;
  children: ComponentChildren;
}

export const View = ({ title, lead, asks, actions, wide = false, children }: ViewProps): JSX.Element => (
  <div class={wide ? "view wide" : "view"}>
    <header class="view-head">
      <div class="view-title">
        <h1 tabIndex={-1}>{title}</h1>
        {lead && <p class="lead">{lead}</p>}
      </div>
      <div class="view-tools">
        {actions}
        <CopyLink />
        <MachineForm asks={asks.filter((ask): ask is Ask => ask !== null)} />
      </div>
    </header>
    {children}
  </div>
);

/** The address of this view at the moment it shows, so that it shows the same tomorrow. */
const CopyLink = (): JSX.Element => {
  const [copied, setCopied] = useState(false);
  const copy = (event: Event): void => {
    if (!navigator.clipboard) return; // over plain HTTP: the link goes into the address bar
    event.preventDefault();
    const address = new URL(pinnedAddress.value, location.href).href;
    void navigator.clipboard.writeText(address).then(() => {
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    });
  };
  return (
    <a class="tool short" href={pinnedAddress.value} onClick={copy} title="Copy a link to this view at this moment">
      <Icon name="link" size={16} /> <span aria-live="polite">{copied ? "copied" : "Link"}</span>
    </a>
  );
};

const curlOf = (ask: Ask): string => {
  const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
  const parts = ["curl -s", quoted(location.origin + addressOfAsk(ask))];
  if (ask.method && ask.method !== "GET" && !(ask.method === "POST" && ask.body !== undefined)) parts.push(`-X ${ask.method}`);
  if (key.value) parts.push('-H "Authorization: Bearer $KEY"');
  if (ask.body !== undefined) parts.push(`-d ${quoted(JSON.stringify(ask.body))}`);
  return parts.join(" ");
};

const SHOWN_MAX = 200_000;

/** The request behind a view, and its answer as it came. */
const MachineForm = ({ asks }: { asks: readonly Ask[] }): JSX.Element | null => {
  const dialog = useRef<HTMLDialogElement>(null);
  const [chosen, setChosen] = useState(0);
  const [open, setOpen] = useState(false);
  const first = asks[0];
  if (first === undefined) return null;
  const show = (event: MouseEvent): void => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    setOpen(true);
    dialog.current?.showModal();
  };
  const ask = asks[chosen] ?? first;
  return (
    <>
      <a class="tool machine short" href={addressOfAsk(first)} onClick={show} title="The requests behind this view, and their JSON">
        <Icon name="code" size={16} /> <span>JSON</span>
      </a>
      <dialog class="sheet" ref={dialog} aria-label="Machine form" onClose={() => setOpen(false)}>
        {open && (
          <>
            <div class="sheet-head">
              <h2>Machine form</h2>
              <button type="button" class="tool" onClick={() => dialog.current?.close()}><Icon name="close" size={16} /> Close</button>
            </div>
            {asks.length > 1 && (
              <div class="choices" role="group" aria-label="Requests of this view">
                {asks.map((each, place) => (
                  <button type="button" key={place} aria-pressed={each === ask} onClick={() => setChosen(place)}>
                    {each.method ?? "GET"} {each.path.split("/").slice(0, 4).join("/")}
                  </button>
                ))}
              </div>
            )}
            <pre class="command" tabIndex={0}>{visible(curlOf(ask))}</pre>
            <Json ask={ask} />
          </>
        )}
      </dialog>
    </>
  );
};

const Json = ({ ask }: { ask: Ask }): JSX.Element => {
  const [text, setText] = useState("…");
  useEffect(() => {
    const stop = new AbortController();
    fetchAsk(ask, stop.signal)
      .then((response) => response.text())
      .then((body) => setText(pretty(body)))
      .catch((fault: unknown) => !stop.signal.aborted && setText(String(fault)));
    return () => stop.abort();
  }, [JSON.stringify(ask)]);
  return <pre class="json" tabIndex={0}>{text}</pre>;
};

const pretty = (body: string): string => {
  let text = body;
  try {
    text = JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    // Metrics and the like are text as they are.
  }
  return text.length > SHOWN_MAX
    ? `${visibleLines(text.slice(0, SHOWN_MAX))}\n… ${bytesText(text.length)} in all`
    : visibleLines(text);
};

const visibleLines = (text: string): string => text.split("\n").map(visible).join("\n");

/** What went wrong, in words, and what to do about it. */
export const Fault = ({ fault }: { fault: Refused | null }): JSX.Element | null => {
  if (fault === null) return null;
  const advice =
    fault.status === 401 ? "This node asks for a key: give one at the top of the page."
    : fault.status === 403 ? "The key at the top of the page does not allow this."
    : fault.status === 429 ? "Too many requests for now: wait a little."
    : null;
  return (
    <p class="notice bad" role="alert">
      <Icon name="warn" /> <span><strong>{visible(fault.message)}</strong>{advice && <> {advice}</>}</span>
    </p>
  );
};

export const Empty = ({ children }: { children: ComponentChildren }): JSX.Element => <p class="empty">{children}</p>;

export const Section = ({ title, aside, children }: { title: string; aside?: ComponentChildren; children: ComponentChildren }): JSX.Element => (
  <section class="section" aria-label={title}>
    <div class="section-head"><h2>{title}</h2>{aside}</div>
    {children}
  </section>
);
