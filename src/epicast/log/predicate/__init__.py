"""The language in which GC events say what is obsolete: parsed once, never evaluated as code."""

from epicast.log.predicate.ast import Predicate, SeqBelow, both, either, key_in, negate
from epicast.log.predicate.codec import decode, encode, gc_payload, split_gc_payload
from epicast.log.predicate.evaluating import matches
from epicast.log.predicate.parsing import describe, parse
from epicast.log.predicate.planning import Plan, plan

__all__ = [
    "Plan", "Predicate", "SeqBelow", "both", "decode", "describe", "either", "encode",
    "gc_payload", "key_in", "matches", "negate", "parse", "plan", "split_gc_payload",
]  # fmt: skip
