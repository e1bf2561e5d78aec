// Which scope is looked at; none chosen means every readable one.
import type { JSX } from "preact";
import { amend, scope } from "../state/place";
import { me } from "../state/session";

export const ScopeChoice = (): JSX.Element => {
  const who = me.value;
  const scopes = who === null || who === "none" ? [] : who.scopes;
  return (
    <label class="inline">Scope{" "}
      <select value={scope.value} onChange={(event) => amend({ scope: event.currentTarget.value })}>
        <option value="">all</option>
        {scopes.map((each) => <option key={each} value={each}>{each}</option>)}
      </select>
    </label>
  );
};
