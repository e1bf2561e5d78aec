"""SQL statements over ``claims`` and ``conflicts``."""

from engramlog.projections.moment import LIVE

TOP = """
SELECT value_hash, newest_hlc, newest_id FROM claims
WHERE key_hash=? ORDER BY newest_hlc DESC LIMIT 1
"""
TOPS = """
SELECT claims.key_hash, value_hash, newest_hlc, newest_id
FROM json_each(?) AS asked CROSS JOIN claims INDEXED BY claims_by_age
WHERE claims.key_hash = unhex(asked.value)
  AND newest_hlc = (SELECT max(newest_hlc) FROM claims WHERE key_hash = unhex(asked.value))
"""
CROWDED = """
SELECT from_position FROM fact_rows AS fresh
WHERE from_position BETWEEN ?1 AND ?2 AND base_confidence > 0 AND EXISTS (
    SELECT 1 FROM fact_rows
    WHERE entity = fresh.entity AND relation = fresh.relation AND scope = fresh.scope
      AND garden_id IS fresh.garden_id AND from_position <> fresh.from_position
      AND from_position <= ?2 AND base_confidence > 0)
"""
EARLIER = """
SELECT number, first, (
    SELECT from_position FROM fact_rows
    WHERE entity = asked ->> 0 AND relation = asked ->> 1 AND scope = asked ->> 2
      AND garden_id IS asked ->> 3 AND from_position < asked ->> 4
      AND base_confidence > 0 AND from_position <> first
    LIMIT 1)
FROM (
    SELECT key AS number, value AS asked, (
        SELECT from_position FROM fact_rows
        WHERE entity = value ->> 0 AND relation = value ->> 1 AND scope = value ->> 2
          AND garden_id IS value ->> 3 AND from_position < value ->> 4
          AND base_confidence > 0
        LIMIT 1) AS first
    FROM json_each(?))
WHERE first IS NOT NULL
"""
ONLY = """
SELECT value_type, value_v, hlc, id, valid_until_us FROM fact_rows
WHERE from_position = ? AND to_position > ? AND set_aside > ?
"""
CLAIM = """
INSERT INTO claims (key_hash, value_hash, live_count, newest_hlc, newest_id, expires_at)
VALUES (?,?,1,?,?,?)
ON CONFLICT DO UPDATE SET
    newest_id = iif(excluded.newest_hlc > newest_hlc, excluded.newest_id, newest_id),
    newest_hlc = max(newest_hlc, excluded.newest_hlc),
    expires_at = max(expires_at, excluded.expires_at),
    live_count = live_count + 1
"""
FACT = """
SELECT entity, relation, scope, garden_id, value_type, value_v, base_confidence, to_position,
    set_aside FROM fact_rows WHERE id=?
"""
CLAIMED = "SELECT live_count, newest_id FROM claims WHERE key_hash=? AND value_hash=?"
DROP_CLAIM = "DELETE FROM claims WHERE key_hash=? AND value_hash=?"
FEWER = "UPDATE claims SET live_count=live_count-1 WHERE key_hash=? AND value_hash=?"
NEXT_NEWEST = """
SELECT id, hlc FROM fact_rows
WHERE entity=?1 AND relation=?2 AND scope=?3 AND value_type=?4 AND value_v=?5
  AND garden_id IS ?6 AND base_confidence>0
  AND from_position<=?7 AND to_position>?7 AND set_aside>?7
ORDER BY hlc DESC LIMIT 1
"""
RENEW = "UPDATE claims SET newest_id=?, newest_hlc=? WHERE key_hash=? AND value_hash=?"
OPEN = f"""
INSERT OR IGNORE INTO conflicts (conflict_id, key_hash, value_hash, entity, relation, scope,
    garden_id, fact_id, opened_by, detected_at, from_position)
SELECT ?,?,?,?,?,?,?,?,?,?,?
WHERE NOT EXISTS (
    SELECT 1 FROM conflicts WHERE key_hash=? AND value_hash=? AND to_position={LIVE})
"""
CLOSE = f"""
UPDATE conflicts SET to_position=? WHERE key_hash=? AND value_hash=? AND to_position={LIVE}
"""
CLOSE_KEY = f"UPDATE conflicts SET to_position=? WHERE key_hash=? AND to_position={LIVE}"
RESOLVE = f"""
UPDATE conflicts SET to_position=min(to_position, ?1), resolved_position=?1, winner_id=?2,
    resolution_fact_id=?3, note=?4, resolved_by=?5
WHERE conflict_id=?6 AND resolved_position IS NULL AND to_position>={LIVE}
"""
ALL_CLAIMS = """
SELECT facts.relation, key_hash, value_hash, newest_hlc, newest_id
FROM claims CROSS JOIN fact_rows AS facts ON facts.id = newest_id ORDER BY key_hash, newest_hlc
"""
RIVAL = """
SELECT 1 FROM claims
WHERE key_hash=? AND expires_at>? AND value_hash<>? LIMIT 1
"""
