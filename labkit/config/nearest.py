"""Which known word a misspelt one was meant to be. Only the standard library, so that every command may use it.

A word counts as near when few letters separate the two (a third of the shorter word, at least one, never all of it; two
letters that changed places are one step), when one consists of whole words of the other (`timeout_seconds`,
`cooldown`), or when `difflib` finds them alike. Capital letters and `-` for `_` separate nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["distance", "nearest"]

_LONGEST = 80  # letters; a longer word is nobody's misspelling, and comparing costs its square
_WORDS, _LETTERS = _LONGEST, _LONGEST + 1  # ranks behind every count of steps
_ALIKE = 0.75  # difflib's ratio


def distance(first: str, second: str) -> int:
    """Count the single letters to add, drop, change or swap with their neighbour that turn one word into the other.

    >>> distance("coooldown_period", "cooldown_period"), distance("tiemout", "timeout"), distance("", "abc")
    (1, 1, 3)
    """
    start, stop = 0, min(len(first), len(second))
    while start < stop and first[start] == second[start]:
        start += 1
    end = 0
    while end < stop - start and first[-1 - end] == second[-1 - end]:
        end += 1
    first, second = first[start : len(first) - end], second[start : len(second) - end]
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, start=1):
        before, above, row = row, before, [i]
        for j, other in enumerate(second, start=1):
            steps = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other:
                steps = min(steps, above[j - 2] + 1)
            row.append(steps)
    return row[-1]


def nearest(word: object, candidates: Iterable[str], *, letters_only: bool = False) -> str | None:
    """Return the candidate that was most likely meant by `word`, or None when none is near.

    The answer does not depend on the order of the candidates: of two that are equally near, the one that `difflib`
    finds more alike wins, then the one that comes first in the alphabet.

    Args:
        letters_only: only count a candidate as near that a few letters separate, as a slip of the finger does.

    >>> nearest("coooldown_period", ["failure_threshold", "cooldown_period"])
    'cooldown_period'
    >>> nearest("Cooldown-Period", ["cooldown_period"]), nearest("timeout_seconds", ["timeout", "timeout_message"])
    ('cooldown_period', 'timeout')
    >>> nearest("colour", ["failure_threshold", "cooldown_period"]) is None
    True
    """
    if not isinstance(word, str) or not word.strip() or len(word) > _LONGEST:
        return None
    from difflib import SequenceMatcher

    plain = _plain(word)
    matcher = SequenceMatcher(None, "", plain, autojunk=False)
    best: tuple[int, float, str] | None = None
    for candidate in candidates:
        other = _plain(candidate)
        if not other or len(other) > _LONGEST:
            continue
        shorter, longer = sorted((len(plain), len(other)))
        within = max(1, shorter // 3)
        steps = distance(plain, other) if longer - shorter <= within else longer
        matcher.set_seq1(other)
        if steps <= within and (steps < shorter or steps == 0):
            rank = steps
        elif letters_only:
            continue
        elif _shares_words(plain, other):
            rank = _WORDS
        elif min(matcher.real_quick_ratio(), matcher.quick_ratio()) >= _ALIKE and matcher.ratio() >= _ALIKE:
            rank = _LETTERS
        else:
            continue
        if best is None or rank <= best[0]:
            entry = (rank, -matcher.ratio(), candidate)
            best = entry if best is None else min(best, entry)
    return None if best is None else best[2]


def _plain(word: str) -> str:
    return word.strip().lower().replace("-", "_").replace(" ", "_")


def _shares_words(first: str, second: str) -> bool:
    """Say whether all words of one stand in the other too; a word of one or two letters says nothing."""
    a, b = set(first.split("_")), set(second.split("_"))
    return (a <= b or b <= a) and any(len(word) > 2 for word in a & b)
