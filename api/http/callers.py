"""Who sends a request, by the keys, gardens and capabilities of this moment."""

from engramlog.api.http.auth import Caller, KnownCallers, identify, of_held_scopes
from engramlog.api.http.errors import ApiError
from engramlog.api.node.issuers import issuers_of
from engramlog.api.node.node import Node
from engramlog.eventlog.held_scopes import EVERY_SCOPE
from engramlog.projections.rights.capability_token import BEARER_PREFIX


class RightsChanged(ApiError):
    """The caller has other rights than those with which the request began."""

    def __init__(self) -> None:
        message = "your rights changed while the request waited: repeat it"
        super().__init__(409, {"code": "rights_changed", "message": message})


class Callers:
    """The callers of a node's requests. ``control_token``: of the machine's own command line."""

    def __init__(self, node: Node, *, keys_required: bool, control_token: str | None) -> None:
        self.keys_required = keys_required
        self._node = node
        self._held = node.log.held
        self._control_token = control_token
        self._known = KnownCallers()

    def caller_of(self, header: str | None, permission: str) -> Caller:
        """The caller of a request with this Authorization header to a route with this permission.
        Used in the event loop alone. Raises ApiError as ``identify`` and ``of_held_scopes``."""
        required = self.keys_required and permission not in ("none", "peer")
        caller = self._identified(header, required, self._known)
        if self._held != EVERY_SCOPE:
            caller = of_held_scopes(caller, self._held, permission)
        return caller

    def check(self, caller: Caller, header: str | None) -> None:
        """Look again after a wait, in any thread. Raises ApiError 401 if the key is no longer
        valid, RightsChanged if its rights are no longer those of ``caller``."""
        proven = caller.key_id is not None or caller.capability is not None
        present = self._identified(header, self.keys_required and proven, None)
        if self._held != EVERY_SCOPE:
            present = of_held_scopes(present, self._held, "read")
        if present != caller:
            raise RightsChanged

    def _identified(self, header: str | None, required: bool, known: KnownCallers | None) -> Caller:
        node = self._node
        reader = node.reader
        return identify(
            header,
            reader.keys,
            reader.gardens,
            node.clock.now_us(),
            required=required,
            control_token=self._control_token,
            capabilities=reader.capabilities,
            issuers=issuers_of(node) if header and BEARER_PREFIX in header else None,
            known=known,
        )
