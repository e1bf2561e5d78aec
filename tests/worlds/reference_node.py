"""A node that speaks the protocol's federation exactly as the reference does, faults included.

Written from the wire description alone, over plain sockets: unpadded clock readings compared as
text, content ids over numbers as written, no check of what it sends.
"""

import base64
import hashlib
import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

WALL_MS = 1_760_000_000_000


def url64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unurl64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class ReferenceNode:
    """``facts`` are its facts; ``answer`` may replace its whole answer (status, body)."""

    def __init__(self, node_id: str = "stigmem:node:11111111-1111-4111-8111-111111111111") -> None:
        self.node_id = node_id
        self.key = Ed25519PrivateKey.generate()
        self.public_key = url64(self.key.public_key().public_bytes_raw())
        self.peers: dict[str, str] = {}
        self.facts: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.nonces: set[str] = set()
        self.scopes = {"company", "public"}
        self.answer: tuple[int, bytes] | None = None
        self.wall_ms, self.counter = WALL_MS, -1
        node = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                status, body = node.answered(self.path, self.headers.get("Authorization"))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    # -- its own facts

    def tick(self, wall_ms: int | None = None) -> str:
        """The next reading, in the reference's form: the counter is not padded."""
        if wall_ms is not None and wall_ms > self.wall_ms:
            self.wall_ms, self.counter = wall_ms, -1
        self.counter += 1
        return f"{self.wall_ms}.{self.counter}"

    def state(self, v: Any = "x", kind: str = "string", **fields: Any) -> dict[str, Any]:
        """Add one more fact; ``fields`` replace those of the record."""
        number = len(self.facts)
        record: dict[str, Any] = {
            "id": str(uuid.uuid4()),
            "entity": f"stigmem://ref.example/thing/{number}",
            "relation": "memory:note",
            "value": {"type": kind, "v": v, "interpret_as": "content"},
            "source": "stigmem://ref.example/agent/r",
            "timestamp": "2025-10-09T08:53:20.000000+00:00",
            "hlc": self.tick(),
            "received_from": None,
            "valid_until": None,
            "confidence": 1.0,
            "scope": "company",
            "garden_id": None,
            "derived_from": [],
        }
        record |= {name: value for name, value in fields.items() if name != "cid"}
        record["cid"] = fields["cid"] if "cid" in fields else reference_cid(record)
        if kind == "number" and isinstance(v, int) and not isinstance(v, bool):
            record["value"]["v"] = float(v)  # stored over "42", sent as 42.0
        self.facts.append(record)
        return record

    # -- its federation

    def answered(self, path: str, authorization: str | None) -> tuple[int, bytes]:
        parts = urlsplit(path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.requests.append(query)
        if self.answer is not None:
            return self.answer
        if parts.path == "/.well-known/stigmem":
            shown = {"node_id": self.node_id, "federation_pubkey": self.public_key}
            return 200, json.dumps(shown).encode()
        if parts.path != "/v1/federation/facts":
            return 404, b'{"detail":"Not Found"}'
        fault = self.token_fault(authorization)
        if fault is not None:
            return 401, json.dumps({"detail": fault}).encode()
        cursor, limit = query.get("cursor", ""), int(query.get("limit", "100"))
        found = sorted(
            (
                fact
                for fact in self.facts
                if fact.get("scope") in self.scopes and str(fact.get("hlc")) > cursor
            ),
            key=lambda fact: str(fact.get("hlc")),
        )
        page = found[:limit]
        body = {
            "facts": page,
            "cursor": str(page[-1].get("hlc")) if page else None,
            "has_more": len(found) > limit,
        }
        return 200, json.dumps(body).encode()

    def token_fault(self, authorization: str | None) -> str | None:
        if not authorization or not authorization.startswith("Bearer "):
            return "peer token required"
        head, middle, signature = authorization[7:].split(".")
        claims = json.loads(unurl64(middle))
        known = self.peers.get(claims["iss"])
        if known is None:
            return "peer not registered"
        try:
            key = Ed25519PublicKey.from_public_bytes(unurl64(known))
            key.verify(unurl64(signature), f"{head}.{middle}".encode())
        except InvalidSignature:
            return "invalid_signature"
        if claims["sub"] != self.node_id:
            return "invalid_sub"
        if claims["nonce"] in self.nonces:
            return "nonce_already_seen"
        self.nonces.add(claims["nonce"])
        return None

    def declaration(self) -> dict[str, Any]:
        """The declaration that it signs to become a peer (wire 3.1)."""
        said: dict[str, Any] = {
            "allowed_scopes": sorted(self.scopes),
            "federation_pubkey": self.public_key,
            "node_id": self.node_id,
            "node_url": self.url,
            "signed_at": "2025-10-09T08:53:20Z",
        }
        text = json.dumps(said, sort_keys=True, separators=(",", ":"))
        return {**said, "declaration_sig": url64(self.key.sign(text.encode()))}

    def token(self, target: str, now_ms: int, scopes: list[str], **claims: Any) -> str:
        """A peer token of this node for another."""
        said = {
            "iss": self.node_id,
            "sub": target,
            "iat": now_ms,
            "exp": now_ms + 60_000,
            "nonce": str(uuid.uuid4()),
            "scopes": scopes,
            **claims,
        }
        parts = [{"alg": "EdDSA", "typ": "JWT"}, said]
        signed = ".".join(url64(json.dumps(part).encode()) for part in parts)
        return f"{signed}.{url64(self.key.sign(signed.encode()))}"


def reference_cid(record: dict[str, Any]) -> str:
    """The content id as the reference computes it: over the parsed number."""
    value = record["value"]
    texts = {"boolean": str(value["v"]).lower(), "null": "null"}
    body = {
        "confidence": float(record["confidence"]),
        "entity": record["entity"],
        "relation": record["relation"],
        "scope": record["scope"],
        "source": record["source"],
        "value_type": value["type"],
        "value_v": texts.get(value["type"], str(value["v"])),
    }
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
