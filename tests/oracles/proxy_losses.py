"""Proxy losses by the definition: Python loops over samples, classes and proxies, in double precision."""

import math

from tests.oracles.losses import dot, normalized


def sides(x, proxies, per_class, kind):
    """Normalised embeddings, and for each class the list of its normalised proxies."""
    rows = [normalized(p, kind) for p in proxies]
    return [normalized(v, kind) for v in x], [rows[i : i + per_class] for i in range(0, len(rows), per_class)]


def soft_similarity(x, centers, gamma):
    """One embedding's similarity to one class."""
    values = [dot(x, w) for w in centers]
    weights = [math.exp((v - max(values)) / gamma) for v in values]
    return math.fsum(w * v for w, v in zip(weights, values, strict=True)) / math.fsum(weights)


def soft_triple(x, labels, proxies, per_class, *, la, gamma, margin, normalize="l2"):
    x, classes = sides(x, proxies, per_class, normalize)
    losses = []
    for row, label in zip(x, labels, strict=True):
        s = [soft_similarity(row, centers, gamma) for centers in classes]
        own = math.exp(la * (s[label] - margin))
        others = math.fsum(math.exp(la * v) for c, v in enumerate(s) if c != label)
        losses.append(-math.log(own / (own + others)))
    return math.fsum(losses) / len(losses)


def sparse_centers(proxies, per_class):
    _, classes = sides([], proxies, per_class, "l2")
    pairs = [(k, l) for k in range(per_class) for l in range(k + 1, per_class)]
    total = math.fsum(math.sqrt(max(0.0, 2 - 2 * dot(c[k], c[l]))) for c in classes for k, l in pairs)
    return total / (len(classes) * per_class * (per_class - 1))


def proxy_nca(x, labels, proxies, per_class, *, temperature, normalize="l2"):
    x, classes = sides(x, proxies, per_class, normalize)
    losses = []
    for row, label in zip(x, labels, strict=True):
        sums = [math.fsum(math.exp(-(math.dist(row, p) ** 2) / temperature) for p in c) for c in classes]
        losses.append(-math.log(sums[label] / math.fsum(sums)))
    return math.fsum(losses) / len(losses)


def proxy_anchor(x, labels, proxies, per_class, *, margin, alpha, normalize="l2"):
    x, classes = sides(x, proxies, per_class, normalize)
    positive, negative = [], []
    for c, own in enumerate(classes):
        for p in own:
            near = [dot(v, p) for v, label in zip(x, labels, strict=True) if label == c]
            far = [dot(v, p) for v, label in zip(x, labels, strict=True) if label != c]
            if near:
                positive.append(math.log(1 + math.fsum(math.exp(-alpha * (s - margin)) for s in near)))
            negative.append(math.log(1 + math.fsum(math.exp(alpha * (s + margin)) for s in far)))
    return math.fsum(positive) / len(positive) + math.fsum(negative) / len(negative)


def connected(row, label, classes, k, positive_mask):
    """(similarity, class) of the k proxies chosen for one embedding: its own class's first, then by similarity."""
    edges = [(dot(row, p), c) for c, own in enumerate(classes) for p in own]
    return sorted(edges, key=lambda edge: (positive_mask and edge[1] == label, edge[0]), reverse=True)[:k]


def softmax_loss(sums, label):
    return math.log(math.fsum(math.exp(z) for z in sums.values())) - sums[label]


def proxy_gml(x, labels, proxies, per_class, *, k, proxy_weight, positive_mask, mask_softmax, normalize="l2"):
    x, classes = sides(x, proxies, per_class, normalize)
    losses = []
    for row, label in zip(x, labels, strict=True):
        edges = connected(row, label, classes, k, positive_mask)
        members = {label} | {c for _, c in edges} if mask_softmax else range(len(classes))
        losses.append(softmax_loss({c: math.fsum(s for s, own in edges if own == c) for c in members}, label))
    own = []
    for label, members in enumerate(classes):
        for p in members:
            sums = {c: math.fsum(dot(p, q) for q in others) for c, others in enumerate(classes)}
            own.append(softmax_loss(sums, label))
    return math.fsum(losses) / len(losses) + proxy_weight * math.fsum(own) / len(own)


def sample_weights(terms, n):
    """How often each sample is named, over the most often named."""
    counts = [sum(index.tolist().count(i) for index in terms) for i in range(n)]
    return [count / max(counts) for count in counts]
