"""Manifests: limited in rate, never an older one, a new key only by rotation."""

from engramlog.projections.moment import HOUR_US
from engramlog.projections.rights.manifest_document import rotation_fault
from engramlog.projections.tables.declared.manifests import load_manifest, puts_since
from engramlog.projections.writing.commands import Refused
from engramlog.projections.writing.decide.context import Context, Decision
from engramlog.projections.writing.peer_commands import PutManifest

PUTS_AN_HOUR = 10


def put_manifest(command: PutManifest, context: Context) -> Decision | Refused:
    """Replace the entity's last manifest."""
    manifest = command.manifest
    if puts_since(context.db, manifest.entity_uri, context.now_us - HOUR_US) >= PUTS_AN_HOUR:
        return Refused("manifest_rate", f"at most {PUTS_AN_HOUR} manifests an hour and entity")
    last = load_manifest(context.db, manifest.entity_uri)
    if last is not None:
        if manifest.issued_at_us < last.issued_at_us:
            return Refused("manifest_outdated", "a newer manifest is here already", "issued_at")
        wanted = (manifest.key_id, manifest.public_key)
        if (last.key_id, last.public_key) != wanted:
            fault = rotation_fault(last.key_id, last.public_key, wanted, command.rotations)
            if fault is not None:
                return Refused("manifest_rotation", fault, "rotation_events")
    return Decision([context.draft(manifest)])
