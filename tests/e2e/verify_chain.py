"""Verifies a signed bundle of the activity log without any code of the gateway: plain Python, SHA-256 and Ed25519.

Usage: verify_chain.py BUNDLE [VERIFIER_KEY]

A bundle is JSON Lines: a header, the hash that the chain starts from, then every position of the chain in order. A
position is the line itself, or its digest if the line was not selected. The payloads of a line may follow it. A signed
note (C2SP signed-note) that covers a position may follow that position. The last position has such a note, so that
nothing can be cut off. A seal at the end is a note about all bytes before it, which proves that nothing was removed
since. Pass the key on the command line if you have it from a trusted source. After a rotation of the key, the header has
notes with which each key signed the next, so that an older key is enough.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

ED25519 = b"\x01"
KEY_ID_BYTES = 4
SIGNATURE_MARK = "\u2014 "


class Bad(Exception):
    """An error in a bundle, with its position."""


@dataclass
class Verdict:
    """The facts that a valid bundle proves."""

    chain: str
    first: int
    last: int
    lines: list[dict[str, Any]]
    sealed: bool


def verify(text: str, trusted: str | None = None) -> Verdict:
    """Verifies a bundle. Raises `Bad` if it is invalid."""
    if not text.endswith("\n"):
        raise Bad("the last line has no end")
    rows = text.removesuffix("\n").split("\n")
    number, proof = 1, None
    try:
        for number, row in enumerate(rows, 1):
            members = _members(row)
            if proof is None:
                proof = _Proof.of_header(members, trusted)
            else:
                proof.take(members)
            proof.bytes.update(f"{row}\n".encode())
    except Bad as bad:
        raise Bad(f"line {number}: {bad}") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Bad(f"line {number}: {type(error).__name__}: {error}") from error
    return proof.finish()


@dataclass
class Key:
    """The public key that a chain is named after, in the format of signed notes."""

    name: str
    identity: bytes
    public: Ed25519PublicKey

    @classmethod
    def parse(cls, text: str, chain: str) -> Key:
        name, identity, encoded = text.split("+", 2)
        key = base64.b64decode(encoded, validate=True)
        if name != f"mcpproxy/{chain}":
            raise Bad("the key is not the key of this chain")
        if hashlib.sha256(f"{name}\n".encode() + key).digest()[:KEY_ID_BYTES].hex() != identity or key[:1] != ED25519:
            raise Bad("the key is not well formed")
        return cls(name, bytes.fromhex(identity), Ed25519PublicKey.from_public_bytes(key[1:]))

    def text_of(self, note: str) -> str:
        """Returns the text of a note, if this key signed it."""
        text, separator, signatures = note.rpartition("\n\n")
        if not separator or not signatures.endswith("\n"):
            raise Bad("not a signed note")
        text += "\n"
        for signature in signatures.removesuffix("\n").split("\n"):
            if not signature.startswith(SIGNATURE_MARK):
                raise Bad("not a signature")
            name, encoded = signature.removeprefix(SIGNATURE_MARK).split(" ")
            raw = base64.b64decode(encoded, validate=True)
            if name == self.name and raw[:KEY_ID_BYTES] == self.identity:
                try:
                    self.public.verify(raw[KEY_ID_BYTES:], text.encode())
                except InvalidSignature:
                    raise Bad("the signature does not fit the note") from None
                return text
        raise Bad("not signed with the key of the bundle")


@dataclass
class _Proof:
    """The state between two lines of the file."""

    chain: str
    key: Key
    position: int | None = None
    first: int = 0
    hash: bytes = b""
    signed: bool = False
    lines: list[dict[str, Any]] = field(default_factory=list)
    payloads_of: dict[str, Any] | None = None
    sealed: bool = False
    bytes: Any = field(default_factory=hashlib.sha256)

    @classmethod
    def of_header(cls, header: dict[str, Any], trusted: str | None) -> _Proof:
        if header.get("bundle") != "mcpproxy activity" or header.get("version") != 1:
            raise Bad("this is no bundle of version 1")
        if trusted is not None and header["verifier"] not in _successors(trusted, header.get("succession", [])):
            raise Bad("signed with another key")
        return cls(header["chain"], Key.parse(header["verifier"], header["chain"]))

    def take(self, row: dict[str, Any]) -> None:
        match sorted(row):
            case _ if self.sealed:
                raise Bad("there is more after the seal")
            case ["start"] if self.position is None:
                self._start(row["start"])
            case _ if self.position is None:
                raise Bad("no position to start from")
            case ["hash", "line"]:
                self._advance(hashlib.sha256(row["line"].encode()).digest(), row["hash"])
                self._line(json.loads(row["line"], object_pairs_hook=_once))
            case ["digest", "hash"]:
                self._advance(_hash(row["digest"]), row["hash"])
            case ["payload"]:
                self._payload(row["payload"])
            case ["checkpoint"]:
                self._checkpoint(row["checkpoint"])
            case ["seal"]:
                self._seal(row["seal"])
            case other:
                raise Bad(f"unknown members {other}")

    def finish(self) -> Verdict:
        if self.position is None or not self.signed:
            raise Bad("the last position is not signed: something may have been cut off")
        return Verdict(self.chain, self.first, self.position, self.lines, self.sealed)

    def _start(self, start: dict[str, Any]) -> None:
        self.position, self.hash = start["seq"], _hash(start["hash"])
        self.first = self.position + 1
        origin = hashlib.sha256(f"mcpproxy chain {self.chain}".encode()).digest()
        if self.position < 0 or (self.position == 0 and self.hash != origin):
            raise Bad("the chain does not begin so")

    def _advance(self, digest: bytes, claimed: str) -> None:
        self.hash = hashlib.sha256(self.hash + digest).digest()
        self.position += 1
        self.signed, self.payloads_of = False, None
        if _hash(claimed) != self.hash:
            raise Bad(f"position {self.position} does not follow from the one before")

    def _line(self, line: dict[str, Any]) -> None:
        if line["seq"] != self.position:
            raise Bad(f"position {self.position} says that it is {line['seq']}")
        self.lines.append(line)
        self.payloads_of = line

    def _payload(self, payload: dict[str, Any]) -> None:
        line, part, text = self.payloads_of, payload["part"], payload["text"].encode()
        if line is None or line["id"] != payload["id"] or part not in ("args", "result"):
            raise Bad("a payload of no line before it")
        facts = line[part]
        whole = "kept_sha256" not in facts
        if hashlib.sha256(text).hexdigest() != facts["sha256" if whole else "kept_sha256"]:
            raise Bad(f"the {part} of position {self.position} were changed")
        if whole and len(text) != facts["bytes"]:
            raise Bad(f"the {part} of position {self.position} have another size")

    def _checkpoint(self, note: str) -> None:
        origin, position, encoded, time, end = self.key.text_of(note).split("\n")
        if origin != self.key.name or end or not time.endswith("Z"):
            raise Bad("not a checkpoint of this chain")
        if position != str(self.position) or base64.b64decode(encoded, validate=True) != self.hash:
            raise Bad(f"the checkpoint vouches for another chain at position {position}")
        self.signed, self.payloads_of = True, None

    def _seal(self, note: str) -> None:
        origin, word, encoded, time, end = self.key.text_of(note).split("\n")
        if (origin, word, end) != (self.key.name, "bundle", "") or not time.endswith("Z"):
            raise Bad("not a seal of this chain")
        if base64.b64decode(encoded, validate=True) != self.bytes.digest():
            raise Bad("the seal is broken: something was changed or withheld")
        self.sealed = True


def _successors(trusted: str, notes: list[str]) -> list[str]:
    """Returns the trusted key, and the keys that it and its successors signed."""
    keys = [trusted]
    for note in notes:
        name = keys[-1].split("+", 1)[0]
        try:
            text = Key.parse(keys[-1], name.removeprefix("mcpproxy/")).text_of(note)
        except Bad:
            continue
        origin, word, new, time, end = text.split("\n")
        if (origin, word, end) != (name, "rotated", "") or not time.endswith("Z"):
            raise Bad("not a succession of keys")
        keys.append(new)
    return keys


def _hash(text: str) -> bytes:
    value = bytes.fromhex(text)
    if len(value) != hashlib.sha256().digest_size or value.hex() != text:
        raise Bad("not a hash")
    return value


def _members(row: str) -> dict[str, Any]:
    value = json.loads(row, object_pairs_hook=_once)
    if not isinstance(value, dict):
        raise Bad("not an object")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member stands there twice")
    return members


def main() -> int:
    try:
        verdict = verify(Path(sys.argv[1]).read_bytes().decode(), *sys.argv[2:3])
    except (Bad, UnicodeDecodeError) as bad:
        print(f"bad: {bad}")
        return 1
    seal = "sealed" if verdict.sealed else "not sealed"
    print(f"good: {len(verdict.lines)} lines of {verdict.first} to {verdict.last} of chain {verdict.chain}, {seal}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
