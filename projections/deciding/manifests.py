"""Manifests put: not too often, never an older one, and another key only by rotation."""

from __future__ import annotations

from eventlog.kinds import OrgManifestSet
from projections.deciding.context import Context, Decision
from projections.intents import PutManifest, Refused
from projections.manifests.document import rotation_fault
from projections.manifests.projector import load_manifest, puts_since

PUTS_AN_HOUR = 10
HOUR_US = 3_600_000_000


def put_manifest(intent: PutManifest, context: Context) -> Decision | Refused:
    """The manifest takes the place of the entity's last one."""
    context.flush()
    if puts_since(context.db, intent.entity_uri, context.now_us - HOUR_US) >= PUTS_AN_HOUR:
        return Refused("manifest_rate", f"at most {PUTS_AN_HOUR} manifests an hour and entity")
    last = load_manifest(context.db, intent.entity_uri)
    if last is not None:
        if intent.issued_at_us < last.issued_at_us:
            return Refused("manifest_outdated", "a newer manifest is here already", "issued_at")
        wanted = (intent.key_id, intent.public_key)
        if (last.key_id, last.public_key) != wanted:
            fault = rotation_fault(last.key_id, last.public_key, wanted, intent.rotations)
            if fault is not None:
                return Refused("manifest_rotation", fault, "rotation_events")
    payload = OrgManifestSet(
        entity_uri=intent.entity_uri,
        key_id=intent.key_id,
        public_key=intent.public_key,
        issued_at_us=intent.issued_at_us,
        expires_at_us=intent.expires_at_us,
        document=intent.document,
    )
    return Decision([context.draft(payload)])
