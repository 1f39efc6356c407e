"""Tokens: secrets that prove an identity, and the hashes of them that a `geoplex.toml` may hold.

A token is `ept:NAME:SECRET`, the secret being 256 random bits. The file holds
`sha256:SALT:DIGEST`, the hash of salt and secret. A slow hash such as scrypt protects passwords,
which people choose and which can therefore be guessed one after the other; 2**256 values cannot be,
however fast the hash is, and every connection would pay for the slowness. The salt makes two hashes
of one token look different, so that a file does not tell who shares a secret with whom.
"""

from __future__ import annotations

import re
from hashlib import sha256
from hmac import compare_digest

TOKEN_PREFIX = "ept"
SECRET_BYTES = 32
SALT_BYTES = 16
MAX_TOKEN_CHARACTERS = 256
TOKEN_HASH_RULE = (
    "expected 'sha256:SALT:DIGEST', as `epicast certificate token NAME` prints it; "
    "never the token itself"
)
_HASH = re.compile(rf"sha256:([0-9a-f]{{{2 * SALT_BYTES}}}):([0-9a-f]{{64}})")
_TOKEN = re.compile(rf"{TOKEN_PREFIX}:([a-z0-9_.-]{{1,64}}):([A-Za-z0-9_-]{{43}})")

_LIKE_A_TOKEN = re.compile(rf"\b{TOKEN_PREFIX}:[^\s'\"]*")


def is_token_hash(text: str) -> bool:
    return _HASH.fullmatch(text) is not None


def is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def name_in_token(token: str) -> str:
    """The identity a token claims; empty if it is no token."""
    match = _TOKEN.fullmatch(token)
    return match[1] if match is not None else ""


def without_tokens(text: str) -> str:
    """The text with what looks like a token in it left out: somebody put one where it does not
    belong, and errors must not repeat it."""
    return _LIKE_A_TOKEN.sub(f"{TOKEN_PREFIX}:…", text)


def hash_token(token: str, salt: bytes) -> str:
    return f"sha256:{salt.hex()}:{_digest(token, salt).hex()}"


def token_matches(token: str, hashed: str) -> bool:
    """Takes the same time whatever part of it is wrong."""
    match = _HASH.fullmatch(hashed)
    if match is None:
        return False
    return compare_digest(_digest(token, bytes.fromhex(match[1])), bytes.fromhex(match[2]))


def _digest(token: str, salt: bytes) -> bytes:
    return sha256(salt + token.encode("utf-8", "surrogatepass")).digest()
