"""The rules of a lease equal their table."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from labkit.policies import Lease
from labkit.policies.probe_lease import TRANSITIONS, LeaseRecord, acquired, is_held, may_release, renewed

LIFE = 10.0
MINE = Lease("t", "me", 7, LIFE, LIFE)
HELD = LeaseRecord("me", 7, LIFE, LIFE)
RECORDS = {
    "free": [None, HELD._replace(expires_at=0.0), HELD._replace(expires_at=-5.0), HELD._replace(expires_at=1e6)],
    "held": [HELD, HELD._replace(expires_at=0.001)],
}
LEASES = {"mine": [MINE], "not mine": [MINE._replace(owner="you"), MINE._replace(token=6), MINE._replace(token=8)]}


def test_the_table_equals_the_code() -> None:
    """Each row says what the function of its trigger makes of every record of its source, at 0 s."""
    for row in TRANSITIONS:
        for record in RECORDS[row.source]:
            assert is_held(record, 0.0) == (row.source == "held")
            granted = row.effect not in ("refused", "refused, whoever asks")
            if row.trigger == "acquire":
                for owner in ("me", "you"):
                    after = acquired(record, owner, 8, LIFE, 0.0)
                    assert after == (LeaseRecord(owner, 8, LIFE, LIFE) if granted else None)
            for lease in LEASES.get(row.guard, LEASES["mine"]):
                if row.trigger == "renew":
                    assert renewed(record, lease, 0.0) == (HELD if granted else None)
                elif row.trigger == "release":
                    assert may_release(record, lease, 0.0) == granted
            if row.trigger == "time":
                assert not is_held(record, LIFE)


@given(st.lists(st.tuples(st.sampled_from("arx"), st.integers(0, 3), st.floats(0.0, 12.0)), max_size=60))
def test_no_two_owners_at_a_time(history: list[tuple[str, int, float]]) -> None:
    """On every history of acquiring, renewing and releasing by four owners, late or not, one at most has the lease."""
    record: LeaseRecord | None = None
    now, token = 0.0, 0
    leases: dict[int, Lease] = {}  # the last that each owner was given, and may still believe in
    ends: dict[int, float] = {}  # until when each may rightly believe in it
    for deed, who, seconds in history:
        now += seconds
        if deed == "a":
            after = acquired(record, str(who), token + 1, LIFE, now)
            if after is not None:
                token, record = after.token, after
                leases[who], ends[who] = Lease("t", str(who), token, LIFE, after.expires_at), now + LIFE
        elif who in leases and deed == "r":
            after = renewed(record, leases[who], now)
            assert (after is not None) == (now < ends.get(who, 0.0))
            if after is not None:
                record, ends[who] = after, now + LIFE
        elif who in leases:
            freed = may_release(record, leases[who], now)
            assert freed == (now < ends.get(who, 0.0))
            if freed:
                record = None
                ends.pop(who)
        assert sum(now < end for end in ends.values()) <= 1
