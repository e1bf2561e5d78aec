// What waits for a decision: conflicts, quarantine, flagged text; and what may or may not be erased.
import type { JSX } from "preact";
import { View } from "../../parts/frame";
import { amend, param } from "../../state/place";
import { may } from "../../state/session";
import type { Ask } from "../../net/send";
import { momentQuery } from "../../state/place";
import { Conflicts } from "./conflicts";
import { Flagged, flaggedAsk, Quarantine, quarantineAsk } from "./held";
import { Erasures, Holds } from "./erasures";

const TABS: readonly [string, string, () => boolean][] = [
  ["conflicts", "Conflicts", () => true],
  ["quarantine", "Quarantine", () => true],
  ["flagged", "Flagged text", () => may("admin")],
  ["holds", "Legal holds", () => may("admin")],
  ["erasures", "Erasure", () => may("admin")],
];

export const ReviewView = (): JSX.Element => {
  const tab = param("tab") || "conflicts";
  const ask: Record<string, Ask> = {
    conflicts: { path: "/v1/conflicts", query: { status: param("status") || "unresolved", limit: 50, ...momentQuery.value } },
    quarantine: quarantineAsk(param("status")),
    flagged: flaggedAsk(param("status")),
    holds: { path: "/v1/legal-holds", query: { limit: 50 } },
    erasures: { path: "/v1/erasures", query: { limit: 50 } },
  };
  const chosen = ask[tab] ?? null;
  return (
    <View title="Review" asks={[chosen]} lead="Where sources disagree, what is held back, and what has to go">
      <div class="choices" role="group" aria-label="What to review">
        {TABS.map(([name, label, allowed]) => (
          <button type="button" key={name} aria-pressed={tab === name} disabled={!allowed()} title={allowed() ? "" : "needs the permission admin"} onClick={() => amend({ tab: name, status: "" })}>{label}</button>
        ))}
      </div>
      {tab === "conflicts" && chosen && <Conflicts ask={chosen} />}
      {tab === "quarantine" && chosen && <Quarantine ask={chosen} />}
      {tab === "flagged" && chosen && <Flagged ask={chosen} />}
      {tab === "holds" && chosen && <Holds ask={chosen} />}
      {tab === "erasures" && chosen && <Erasures ask={chosen} />}
    </View>
  );
};
