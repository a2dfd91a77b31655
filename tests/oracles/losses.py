"""Losses by the definition: Python loops over every pair or triplet, in double precision."""

import math


def normalized(row, kind):
    """One vector, into the unit ball ("lipschitz"), onto the sphere ("l2") or as it is (None)."""
    length = math.hypot(*row)
    scale = {"lipschitz": max(1.0, length), "l2": length or 1.0, None: 1.0}[kind]
    return [value / scale for value in row]


def dot(x, y):
    return math.fsum(a * b for a, b in zip(x, y, strict=True))


def sides(x, labels, references, reference_labels, kind):
    """Anchors and references after normalisation, and for each anchor the indices of its positives and negatives."""
    within = references is None
    if within:
        references, reference_labels = x, labels
    anchors, references = ([normalized(row, kind) for row in rows] for rows in (x, references))
    positives = [
        [j for j, other in enumerate(reference_labels) if other == label and not (within and i == j)]
        for i, label in enumerate(labels)
    ]
    negatives = [[j for j, other in enumerate(reference_labels) if other != label] for label in labels]
    return anchors, references, positives, negatives


def active_mean(costs):
    active = [cost for cost in costs if cost > 0]
    return math.fsum(active) / len(active) if active else 0.0


def contrastive(x, labels, references=None, reference_labels=None, *, pos_margin, neg_margin, normalize):
    a, r, positives, negatives = sides(x, labels, references, reference_labels, normalize)
    near = [math.dist(a[i], r[j]) - pos_margin for i in range(len(a)) for j in positives[i]]
    far = [neg_margin - math.dist(a[i], r[j]) for i in range(len(a)) for j in negatives[i]]
    return active_mean(near) + active_mean(far)


def cosine_contrastive(x, labels, references=None, reference_labels=None, *, margin, normalize):
    a, r, positives, negatives = sides(x, labels, references, reference_labels, normalize)
    total = 0.0
    for i in range(len(a)):
        total += math.fsum(max(0.0, 1.0 - dot(a[i], r[j])) for j in positives[i])
        total += math.fsum(max(0.0, dot(a[i], r[j]) - margin) for j in negatives[i])
    return total / len(a)


def triplet(x, labels, references=None, reference_labels=None, *, margin, normalize):
    a, r, positives, negatives = sides(x, labels, references, reference_labels, normalize)
    return active_mean(
        math.dist(a[i], r[p]) - math.dist(a[i], r[n]) + margin
        for i in range(len(a))
        for p in positives[i]
        for n in negatives[i]
    )


def multi_similarity(x, labels, references=None, reference_labels=None, *, alpha, beta, base, normalize):
    a, r, positives, negatives = sides(x, labels, references, reference_labels, normalize)
    total = 0.0
    for i in range(len(a)):
        total += math.log1p(math.fsum(math.exp(-alpha * (dot(a[i], r[j]) - base)) for j in positives[i])) / alpha
        total += math.log1p(math.fsum(math.exp(beta * (dot(a[i], r[j]) - base)) for j in negatives[i])) / beta
    return total / len(a)


def ranked_list(
    x, labels, references=None, reference_labels=None, *, alpha, margin, temperature, weight=1.0, normalize
):
    """The weights by fractions of the largest, so that no temperature overflows."""
    a, r, positives, negatives = sides(x, labels, references, reference_labels, normalize)
    total = 0.0
    for i in range(len(a)):
        near = [math.dist(a[i], r[j]) - (alpha - margin) for j in positives[i]]
        far = [alpha - math.dist(a[i], r[j]) for j in negatives[i]]
        far = [cost for cost in far if cost > 0]
        weights = [math.exp(temperature * (cost - max(far))) for cost in far]
        total += active_mean(near)
        if far:
            total += weight * math.fsum(w * cost for w, cost in zip(weights, far)) / math.fsum(weights)
    return total / len(a)
