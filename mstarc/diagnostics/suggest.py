"""Did-you-mean: the known names nearest to an unknown one."""

from collections.abc import Iterable


def edit_distance(a: str, b: str) -> int:
    """Levenshtein distance with adjacent transpositions counted as one edit."""
    previous_previous: list[int] = []
    previous = list(range(len(b) + 1))
    for i, char_a in enumerate(a, 1):
        current = [i]
        for j, char_b in enumerate(b, 1):
            best = min(previous[j] + 1, current[j - 1] + 1, previous[j - 1] + (char_a != char_b))
            if i > 1 and j > 1 and char_a == b[j - 2] and a[i - 2] == char_b:
                best = min(best, previous_previous[j - 2] + 1)
            current.append(best)
        previous_previous, previous = previous, current
    return previous[-1]


def related(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Names of `known` that share a word with a name of another spelling, or begin as it does.

    >>> related("num_heads", ["heads", "layers"]), related("kv", ["host", "kv_cache"])
    (('heads',), ('kv_cache',))
    >>> related("books", ["codebooks", "hop"])
    ('codebooks',)
    >>> related("x", ["x_next"]), related("step", ["prefill", "step_two"])
    ((), ('step_two',))
    """
    words = {word for word in name.lower().split("_") if len(word) > 1}

    def is_akin(other: str) -> bool:
        ends = min(len(name), len(other)) > 3 and (other.endswith(name) or name.endswith(other))
        return ends or not words.isdisjoint(other.split("_"))

    return tuple(sorted(k for k in set(known) if k != name and is_akin(k.lower())))


def did_you_mean(name: str, known: Iterable[str], *, most: int = 3) -> tuple[str, ...]:
    """Up to `most` names of `known` within a third of the length (at least 1, at most 3) edits.

    Nearest first, ties in alphabetical order.

    >>> did_you_mean("lm_", ["lm", "codec", "frontend"])
    ('lm',)
    """
    limit = max(1, min(3, (len(name) + 2) // 3))
    ranked = sorted((edit_distance(name.lower(), k.lower()), k) for k in set(known) if k != name)
    return tuple(k for distance, k in ranked if distance <= limit)[:most]
