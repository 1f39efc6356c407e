"""The work done per entry in a round: putting what is new in its place, ageing, choosing what is
sent and delivered, forgetting."""

from __future__ import annotations

from epicast.protocols.epto.layout import (
    COUNT,
    FRESH,
    LAST_SOURCE,
    LAST_TIME,
    LIVE,
    MAX_BATCH_EVENTS,
    PASSED,
    SIZE_MASK,
    Bytes,
    Ints,
    Places,
    compiled,
)


@compiled
def merge(
    round_number: int,
    ids: Ints,
    born: Ints,
    spoken: Ints,
    heard: Bytes,
    at: Ints,
    state: Ints,
    ascending: Ints,
    fresh: Ints,
    late: Places,
) -> int:
    """Put new entries, which are `ascending` in that order, in their places among the others.
    Returns how many of them the order has passed already; `late` gets their places. `fresh`, with
    six columns, has room for what is new."""
    count = state[FRESH]
    first = state[COUNT]
    for k in range(count):
        i = first + ascending[k]
        for column in range(4):
            fresh[k, column] = ids[i, column]
        fresh[k, 4] = heard[i]
        fresh[k, 5] = at[i]
    i = first - 1
    write = first + count - 1
    passed = 0
    for k in range(count - 1, -1, -1):
        time = fresh[k, 0]
        source = fresh[k, 1]
        while i >= 0 and (ids[i, 0] > time or (ids[i, 0] == time and ids[i, 1] > source)):
            for column in range(4):
                ids[write, column] = ids[i, column]
            born[write] = born[i]
            spoken[write] = spoken[i]
            heard[write] = heard[i]
            at[write] = at[i]
            i -= 1
            write -= 1
        for column in range(4):
            ids[write, column] = fresh[k, column]
        heard[write] = fresh[k, 4]
        at[write] = fresh[k, 5]
        born[write] = round_number
        spoken[write] = round_number
        if time < state[LAST_TIME] or (time == state[LAST_TIME] and source <= state[LAST_SOURCE]):
            late[passed] = write
            passed += 1
        write -= 1
    state[COUNT] += count
    state[FRESH] = 0
    state[PASSED] += passed
    return passed


@compiled
def grow_older(
    round_number: int, ttl: int, hop: int, born: Ints, spoken: Ints, heard: Bytes, state: Ints
) -> None:
    """A round begins: what was heard of since the last one is as old as was said, up to `ttl`.
    Where a `hop` makes nothing older, it is passed on as old as it is here."""
    for i in range(state[COUNT]):
        if heard[i]:
            spoken[i] = round_number
            born[i] = min(born[i], round_number - min(int(heard[i]), ttl))
            if hop == 0:
                heard[i] = min(round_number - born[i], 255)


@compiled
def deliverable(
    round_number: int, rounds: int, latest: int, ids: Ints, born: Ints, state: Ints
) -> int:
    """Where the entries end that are next in the order, older than `rounds`, and not beyond
    `latest`: the first that is not holds back all after it. In all they have `MAX_BATCH_EVENTS`
    events at most."""
    end = state[PASSED]
    events = 0
    while end < state[COUNT] and round_number - born[end] > rounds and ids[end, 0] <= latest:
        events += ids[end, 3] >> 32
        if events > MAX_BATCH_EVENTS:
            break
        end += 1
    return int(end)


@compiled
def relayed(
    round_number: int, ttl: int, repeat: bool, born: Ints, heard: Bytes, state: Ints, rows: Places
) -> int:
    """The entries of the next ball: those heard of since the last one, neither too often nor known
    to be older than `ttl`; with `repeat` also those heard of before that are waiting."""
    found = 0
    for i in range(state[COUNT]):
        if repeat and not heard[i] and i >= state[PASSED] and round_number - born[i] <= ttl:
            heard[i] = round_number - born[i]
        if 0 < heard[i] <= ttl and round_number - born[i] <= ttl:
            rows[found] = i
            found += 1
    return found


@compiled
def forget_passed(
    before: int,
    keep_heard: bool,
    ids: Ints,
    born: Ints,
    spoken: Ints,
    heard: Bytes,
    at: Ints,
    state: Ints,
) -> None:
    """After a round: what is passed in the order goes if nobody has spoken of it since the round
    `before`. With `keep_heard`, there was nobody to send a ball to, and all is to be sent later."""
    kept = 0
    kept_passed = 0
    for i in range(state[COUNT]):
        if i < state[PASSED]:
            if spoken[i] < before:
                state[LIVE] -= ids[i, 3] & SIZE_MASK
                continue
            kept_passed += 1
        if kept != i:
            ids[kept, 0] = ids[i, 0]
            ids[kept, 1] = ids[i, 1]
            ids[kept, 2] = ids[i, 2]
            ids[kept, 3] = ids[i, 3]
            born[kept] = born[i]
            spoken[kept] = spoken[i]
            at[kept] = at[i]
        heard[kept] = heard[i] if keep_heard else 0
        kept += 1
    state[COUNT] = kept
    state[PASSED] = kept_passed


@compiled
def recognise(
    before: Ints, ages: Ints, histories: Ints, ids: Ints, ages_now: Ints, histories_now: Ints
) -> int:
    """Find what was waiting `before`, at those ages, among what is waiting now, and go on with the
    histories (see `stability`). Returns the first place that something new has."""
    first_new = len(ages)
    i = 0
    for k in range(len(ids)):
        if i < len(ages) and ids[k, 0] == before[i, 0] and ids[k, 1] == before[i, 1]:
            histories_now[k, 0] = histories[i, 0]
            if k == i:
                histories_now[k, 1] = histories[i, 1]
                histories_now[k, 2] = histories[i, 2]
            else:
                histories_now[k, 1] = ages[i]
                histories_now[k, 2] = max(ages_now[k], ages[i] + 1)
            i += 1
        else:
            histories_now[k, 0] = ages_now[k]
            histories_now[k, 1] = -1
            histories_now[k, 2] = -1
            first_new = min(first_new, k)
    return first_new
