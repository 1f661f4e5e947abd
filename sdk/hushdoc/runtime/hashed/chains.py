"""Linear chains: the best labels of sequences of items, found exactly, and their probabilities.

Arguments mean the same throughout: `scores` has the shape [items, labels], `transitions` [labels,
labels], from a label to the next; sequence i has the items from `offsets[i]` to `offsets[i + 1]`;
`path` has the label of every item.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]
Tags = npt.NDArray[np.int64]
Offsets = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_LOCKSTEP_NUMBERS = 1 << 20
"""Numbers in one step of many sequences: bounds the working memory."""

_ALONE = 170
"""Sequences times labels squared, below which plain Python is faster than steps of numpy."""

_LONG = 64
"""Items of a sequence, from which a few steps of numpy are faster than one of Python for each."""

_GUESSES = 10
"""How often these steps are tried; where labels hold on for long, they do not settle."""

_VERY_FEW_LABELS = 4
"""Up to so many, all labels before an item are found at once, whichever the next one has."""

_TOGETHER = 1 << 13
"""Items whose numbers stay in the cache of one core."""


def viterbi(scores: Scores, offsets: Offsets, transitions: Scores) -> Tags:
    """Returns the best label of every item; of equally good ones the first in the table's order.

    The arithmetic is that of crfsuite, step for step, so the answers are the same; of two labels
    only the difference is computed, which is more accurate and a few times faster.
    """
    if len(offsets) == 2 and len(scores) and transitions.size < _ALONE:
        return np.asarray(_decode_alone(scores, transitions), dtype=np.int64)
    path = np.zeros(len(scores), dtype=np.int64)
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    order = order[lengths[order] > 0]
    for first, last in _groups(lengths[order], transitions.size):
        chosen = order[first:last]
        if len(chosen) * transitions.size < _ALONE:
            for start, stop in zip(offsets[chosen], offsets[chosen + 1], strict=True):
                path[start:stop] = _decode_alone(scores[start:stop], transitions)
        else:
            _decode_together(path, scores, offsets[chosen], lengths[chosen], transitions)
    return path


def probabilities(
    scores: Scores, offsets: Offsets, transitions: Scores, path: Tags, items: Tags
) -> Scores:
    """Returns how probable the chosen label of some items is, given the labels beside them.

    It is the field's conditional probability where the weights maximise likelihood; with those of a
    passive-aggressive fit, or with filled or noisy rows, it is no more than a confidence.
    """
    ends = np.zeros(len(scores) + 1, dtype=bool)
    ends[offsets] = True
    logits = scores[items]
    inner = ~ends[items]
    logits[inner] += transitions[path[items[inner] - 1]]
    inner = ~ends[items + 1]
    logits[inner] += transitions[:, path[items[inner] + 1]].T
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers[np.arange(len(items)), path[items]] / powers.sum(axis=1))


def span_probabilities(
    scores: Scores,
    offsets: Offsets,
    transitions: Scores,
    path: Tags,
    spans: Tags,
    joins: Flags,
) -> Scores:
    """Returns how probable it is that a field stands exactly where each span is.

    Of all labellings of its sequence, by their weights, it is the share in which the span's items
    have the labels of the path and no item beside them goes on with the field: the constrained
    forward-backward estimate of Culotta and McCallum (2004). Sequences without a span cost nothing.

    `spans` has the shape [spans, 2]: the first item and one past the last, both of one sequence.
    `joins` [labels, labels] says whether an item with the second label goes on with the field of an
    item with the first one.
    """
    first, stop = spans.T
    places = np.searchsorted(offsets, first, side="right") - 1
    begins, ends = offsets[places], offsets[places + 1]
    among = np.unique(places)
    total, starts, stops = len(scores), offsets[among], offsets[among + 1]
    until = _messages(scores, starts, stops, transitions)
    onward = _messages(scores[::-1], total - stops, total - starts, transitions.T)[::-1]
    inner = np.flatnonzero(stop > first + 1)
    lengths = (stop - first - 1)[inner]
    owners = np.repeat(inner, lengths)
    later = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    items = first[owners] + 1 + later

    found = _opening(until, onward, transitions, path, first, first > begins, joins)
    steps = _shares(transitions[path[items - 1]] + onward[items])
    np.multiply.at(found, owners, steps[np.arange(len(items)), path[items]])
    inner = np.flatnonzero(stop < ends)
    last = path[stop[inner] - 1]
    found[inner] *= (_shares(transitions[last] + onward[stop[inner]]) * ~joins[last]).sum(axis=1)
    return np.minimum(found, 1.0)  # sums of shares round up


def _opening(
    until: Scores,
    onward: Scores,
    transitions: Scores,
    path: Tags,
    first: Tags,
    inner: Flags,
    joins: Flags,
) -> Scores:
    """Returns how probable it is that a field begins at each of some items, with its label."""
    tags = path[first]
    found = _shares(onward[first])[np.arange(len(first)), tags]
    others = np.flatnonzero(inner)
    most = max(1, _LOCKSTEP_NUMBERS // transitions.size)
    for group in range(0, len(others), most):
        chosen = others[group : group + most]
        at, tag = first[chosen], tags[chosen]
        pairs = until[at - 1][:, :, None] + transitions + onward[at][:, None]
        shares = _shares(pairs.reshape(len(at), -1)).reshape(pairs.shape)
        found[chosen] = (shares[np.arange(len(at)), :, tag] * ~joins.T[tag]).sum(axis=1)
    return found


def _messages(scores: Scores, starts: Offsets, stops: Offsets, transitions: Scores) -> Scores:
    """Returns the forward messages: evidence for each item's labels from the sequence's start on.

    These are logarithms of sums over all labellings of the items before, less the largest of the
    item; zeros outside these sequences.
    """
    found = np.zeros_like(scores)
    if len(starts) == 1 and stops[0] - starts[0] >= _LONG:
        own = slice(int(starts[0]), int(stops[0]))
        found[own] = _messages_alone(scores[own], transitions)
        return found
    order = np.argsort(starts - stops, kind="stable")
    most = max(1, _LOCKSTEP_NUMBERS // transitions.size)
    for group in range(0, len(order), most):
        chosen = order[group : group + most]
        lengths = (stops - starts)[chosen]
        before = np.zeros((0, len(transitions)))
        for step in range(int(lengths[0])):
            active = int(np.searchsorted(-lengths, -step, side="left"))
            items = starts[chosen[:active]] + step
            now = scores[items]
            if step:
                now += _log_sums(before[:active, :, None] + transitions)
            before = found[items] = now - now.max(axis=1, keepdims=True)
    return found


def _messages_alone(scores: Scores, transitions: Scores) -> Scores:
    """Returns the same for one long sequence, whose pieces are followed together.

    First for each label that may stand before a piece, which says what every piece does with what
    comes in; then with what really comes in.
    """
    labels = len(transitions)
    most = max(1, _LOCKSTEP_NUMBERS // labels**3)
    size = max(math.isqrt(len(scores)), -(-len(scores) // most))
    count = -(-len(scores) // size)
    pieces = np.zeros((count, size, labels))  # what is filled up at the end comes after all else
    pieces.reshape(-1, labels)[: len(scores)] = scores
    through = transitions + pieces[:, 0, None, :]
    through[0] = pieces[0, 0]  # nothing comes before
    for step in range(1, size):
        through = _log_sums(through[..., None] + transitions) + pieces[:, step, None, :]
        through -= through.max(axis=(1, 2), keepdims=True)
    enters = np.zeros((count, labels))
    for piece in range(count - 1):
        reached = _log_sums(enters[piece, :, None] + through[piece])
        enters[piece + 1] = reached - reached.max()
    now = pieces[:, 0]
    now[1:] += _log_sums(enters[1:, :, None] + transitions)
    found = np.empty_like(pieces)
    for step in range(size):
        if step:
            now = _log_sums(now[..., None] + transitions) + pieces[:, step]
        now = found[:, step] = now - now.max(axis=1, keepdims=True)
    return found.reshape(-1, labels)[: len(scores)]


def _log_sums(pairs: Scores) -> Scores:
    """Returns logarithms of sums over the last axis but one, of numbers given as logarithms."""
    tops = pairs.max(axis=-2, keepdims=True)
    return np.asarray(tops[..., 0, :] + np.log(np.exp(pairs - tops).sum(axis=-2)))


def _shares(logits: Scores) -> Scores:
    """Returns the powers of each row as shares of their sum."""
    powers = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _groups(lengths: Offsets, size: int) -> Iterator[tuple[int, int]]:
    """Yields ranges of sequences, the longest first, to be followed together.

    A few that are more than twice as long as all others stay apart, where they are faster; so do
    all of two labels, whose ties are decided otherwise alone than together. `size` is how many
    numbers one step of one sequence has.
    """
    most, first = max(1, _LOCKSTEP_NUMBERS // size), 0
    while first < len(lengths):
        last = int(np.searchsorted(-lengths, -(lengths[first] // 2), side="left"))
        if size > 4 and (last - first) * size >= _ALONE:
            last = len(lengths)
        last = min(first + most, max(first + 1, last))
        yield first, last
        first = last


def _decode_two(scores: Scores, transitions: Scores) -> list[int] | Tags:
    """Returns the best labels of one sequence of two labels, by the second's lead."""
    gains = scores[:, 1] - scores[:, 0]
    if len(gains) >= _LONG:
        settled = _settled(gains, transitions)
        if settled is not None:
            return settled
    (stay, leave), (enter, keep) = transitions.tolist()
    first_gain, *others = gains.tolist()
    lead = first_gain
    leads = [lead]
    for gain in others:
        kept, entered = lead + keep, lead + enter
        lead = (kept if kept > leave else leave) - (entered if entered > stay else stay) + gain
        leads.append(lead)
    label = int(leads.pop() > 0)
    path = [label]
    enters, keeps = stay - enter, leave - keep
    for lead in reversed(leads):
        label = 1 if lead > (keeps if label else enters) else 0
        path.append(label)
    return path[::-1]


def _settled(gains: Scores, transitions: Scores) -> Tags | None:
    """Returns the same labels as `_decode_two` one after the other, or None.

    Each lead follows from the one before and from nothing else, and mostly not even from that: it
    is cut off above and below. So all are computed at once from a guess, again and again. When none
    changes any more, every one is what its predecessor makes of it, which only the true ones are.
    """
    (stay, leave), (enter, keep) = transitions.tolist()
    leads, before = gains.copy(), np.empty_like(gains)
    for _ in range(_GUESSES):
        before[:] = leads
        leads[1:] = np.maximum(before[:-1] + keep, leave) - np.maximum(before[:-1] + enter, stay)
        leads[1:] += gains[1:]
        if (leads == before).all():
            break
    else:
        return None
    # Likewise for the labels, from the last to the first.
    enters, keeps = leads > stay - enter, leads > leave - keep
    path = leads > 0
    for _ in range(_GUESSES):
        guess = path.copy()
        path[:-1] = np.where(guess[1:], keeps[:-1], enters[:-1])
        if (path == guess).all():
            return path.astype(np.int64)
    return None


def _decode_alone(scores: Scores, transitions: Scores) -> list[int] | Tags:
    """Returns the best labels of one sequence."""
    if len(transitions) == 2:
        return _decode_two(scores, transitions)
    into = transitions.T.tolist()
    best, *rest = scores.tolist()
    came_from = []
    for own in rest:
        reached = [[a + b for a, b in zip(best, column, strict=True)] for column in into]
        tops = [max(values) for values in reached]
        came_from.append([values.index(top) for values, top in zip(reached, tops, strict=True)])
        best = [top + value for top, value in zip(tops, own, strict=True)]
    path = [best.index(max(best))]
    for back in reversed(came_from):
        path.append(back[path[-1]])
    return path[::-1]


def _decode_together(
    path: Tags,
    scores: Scores,
    starts: Offsets,
    lengths: Offsets,
    transitions: Scores,
) -> None:
    """Writes the best labels of many sequences, the longest first, in steps of one item each."""
    counts = np.searchsorted(-lengths, -np.arange(lengths[0]), side="left")
    active, ends = [*counts.tolist(), 0], np.cumsum([0, *counts]).tolist()
    # First the first items of all sequences, then the second ones of those that have any, ...
    items = np.arange(ends[-1]) - np.repeat(ends[:-1], counts)
    items = starts.take(items)
    items += np.repeat(np.arange(len(counts)), counts)
    best = scores.T.take(items, axis=1)
    steps = transitions[:, :, None]
    for step in range(1, len(counts)):
        before = best[:, None, ends[step - 1] : ends[step - 1] + active[step]]
        now = best[:, ends[step] : ends[step + 1]]
        np.add(now, np.maximum.reduce(before + steps), out=now)
    places = np.array(ends)[lengths - 1] + np.arange(len(lengths))
    tags = best.take(places, axis=1).argmax(axis=0)
    came_from = _came_from(best, transitions) if len(transitions) <= _VERY_FEW_LABELS else None
    chosen, numbers = np.empty(len(items), dtype=np.int64), np.arange(len(items))
    for step in range(len(active) - 2, -1, -1):
        longer = active[step + 1]
        if longer:  # must reach the label that was chosen for the next item
            now = slice(ends[step], ends[step] + longer)
            following = tags[:longer]
            if came_from is None:
                reached = best[:, now] + transitions.take(following, axis=1)
                tags[:longer] = reached.argmax(axis=0)
            else:
                tags[:longer] = came_from.take(following * len(items) + numbers[now])
        chosen[ends[step] : ends[step + 1]] = tags[: active[step]]
    path[items] = chosen


def _came_from(best: Scores, transitions: Scores) -> npt.NDArray[np.int8]:
    """Returns the label before each next label and after each item, of equally good ones the first.

    The shape is [next labels, items], `best` has the shape [labels, items].
    """
    found = np.zeros(best.shape, dtype=np.int8)
    for first in range(0, best.shape[1], _TOGETHER):
        part = best[:, first : first + _TOGETHER]
        for following, own in enumerate(found[:, first : first + _TOGETHER]):
            top = part[0] + transitions[0, following]
            for label in range(1, len(transitions)):
                reached = part[label] + transitions[label, following]
                np.maximum(own, (reached > top).view(np.int8) * np.int8(label), out=own)
                np.maximum(top, reached, out=top)
    return found
