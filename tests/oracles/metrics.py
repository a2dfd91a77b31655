"""Metrics by the definition: Python loops, float64, every distance from scratch."""

import math

from tests.oracles.selection import distance, greedy


def ranking(query, references, left_out=None):
    """Reference indices by distance, the lower first among equals."""
    order = sorted(range(len(references)), key=lambda j: (distance(query, references[j]), j))
    return [j for j in order if j != left_out]


def retrieval(queries, query_labels, references=None, labels=None, ks=(1, 2, 4, 8)):
    """Means of MAP@R, P@1, P@R and Recall@k, with the numbers of queries counted and skipped."""
    alone = references is None
    if alone:
        references, labels = queries, query_labels
    sums = dict.fromkeys(["map_at_r", "p_at_1", "p_at_r", *(f"recall_at_{k}" for k in ks)], 0.0)
    counted = 0
    for i, (query, label) in enumerate(zip(queries, query_labels, strict=True)):
        order = ranking(query, references, i if alone else None)
        right = [labels[j] == label for j in order]
        r = sum(right)
        if r == 0:
            continue
        counted += 1
        sums["map_at_r"] += sum(sum(right[: j + 1]) / (j + 1) for j in range(r) if right[j]) / r
        sums["p_at_1"] += right[0]
        sums["p_at_r"] += sum(right[:r]) / r
        for k in ks:
            sums[f"recall_at_{k}"] += any(right[:k])
    means = {name: total / counted for name, total in sums.items()}
    return {**means, "n_queries": counted, "n_skipped": len(queries) - counted}


def own_distances(points, labels, centres, owners):
    """For each class, sorted: the distances of its points to the nearest of its own centres."""
    result = []
    for c in sorted(set(labels)):
        own = [centre for centre, owner in zip(centres, owners, strict=True) if owner == c]
        mine = [p for p, label in zip(points, labels, strict=True) if label == c]
        result.append([min(distance(p, centre) for centre in own) for p in mine])
    return result


def curve(points, labels):
    """For each class, sorted: greedy radii from the sample whose farthest neighbour is nearest."""
    result = []
    for c in sorted(set(labels)):
        mine = [p for p, label in zip(points, labels, strict=True) if label == c]
        start = min(range(len(mine)), key=lambda i: (max(distance(mine[i], q) for q in mine), i))
        mine = [mine[start], *mine[:start], *mine[start + 1 :]]
        result.append(greedy(mine, len(mine))[1])
    return result


def pairs(points, labels):
    """(distance, same class) of every pair i < j."""
    n = len(points)
    return [(distance(points[i], points[j]), labels[i] == labels[j]) for i in range(n) for j in range(i + 1, n)]


def violations(points, labels, beta, alpha):
    """Probability, surrogate and bound of the chance constraint."""
    excess = [(d - beta) * (1 if same else -1) for d, same in pairs(points, labels)]
    surrogate = sum(max(0.0, e + alpha) for e in excess) / len(excess)
    return sum(e >= 0 for e in excess) / len(excess), surrogate, surrogate / alpha


def mutual_information(a, b):
    """Normalised mutual information of two labelings, 2 I / (H + H)."""
    n = len(a)

    def entropy(values):
        return -sum(values.count(v) / n * math.log(values.count(v) / n) for v in set(values))

    joint = entropy(list(zip(a, b, strict=True)))
    return 2 * (entropy(a) + entropy(b) - joint) / (entropy(a) + entropy(b))


def occurrences(points, k):
    """How often each point is among the k nearest of another one."""
    near = [j for i, point in enumerate(points) for j in ranking(point, points, i)[:k]]
    return [near.count(i) for i in range(len(points))]


def skewness(values):
    """Third central moment over the cube of the standard deviation; 0 where nothing deviates."""
    mean = sum(values) / len(values)
    second, third = (sum((v - mean) ** p for v in values) / len(values) for p in (2, 3))
    return third / second**1.5 if second else 0.0
