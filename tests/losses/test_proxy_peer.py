"""Proxy losses against pytorch-metric-learning: values, gradients, and its parts inside our losses and the reverse."""

import pytest
import torch
from pytorch_metric_learning import distances, miners, reducers, regularizers
from pytorch_metric_learning import losses as peer

from labkit.errors import LabError
from labkit.losses import ProxyAnchorLoss, ProxyNCALoss, SoftTripleLoss, SparseCentersRegularizer

C, D, K = 5, 6, 3
COSINE, DOT = distances.CosineSimilarity(), distances.DotProductSimilarity(normalize_embeddings=False)
SPHERE, PLAIN = (distances.LpDistance(normalize_embeddings=on, power=2) for on in (True, False))
REGULARIZERS = {
    "none": lambda: None,
    "sparse": lambda: regularizers.SparseCentersRegularizer(C, K),
    "lp": regularizers.LpRegularizer,
    "face": regularizers.RegularFaceRegularizer,
    "invariant": regularizers.CenterInvariantRegularizer,
    "zero mean": regularizers.ZeroMeanRegularizer,
}
MINERS = {
    "none": lambda *batch: None,
    "pairs": miners.MultiSimilarityMiner(epsilon=0.3),
    "triplets": miners.TripletMarginMiner(margin=0.4),
    "finds nothing": miners.PairMarginMiner(pos_margin=9.0, neg_margin=-1.0),
}


def batch(seed=0):
    own = torch.Generator().manual_seed(seed)
    x = torch.randn(14, D, generator=own, dtype=torch.float64).requires_grad_()
    return x, torch.randint(C, (14,), generator=own)


def proxies(loss):
    """The peer's proxies, rows first."""
    return loss.fc.T if hasattr(loss, "fc") else loss.proxies


def pair(ours, theirs, rows=C):
    """Both in double with the same proxies."""
    weight = torch.randn(rows, D, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    with torch.no_grad():
        ours.double().weight.copy_(weight)
        proxies(theirs.double()).copy_(weight)
    return ours, theirs


def soft_triple(settings=None, ours=None, theirs=None, **options):
    arguments = (C, D, K, *(settings or (20, 0.1, 0.01)))
    both = (
        SoftTripleLoss(*arguments, **options, **(ours or {})),
        peer.SoftTripleLoss(*arguments, **options, **(theirs or {})),
    )
    return pair(*both, C * K)


def assert_equal(ours, theirs, terms=None):
    x, labels = batch()
    results = []
    for loss, weight in ((ours, ours.weight), (theirs, theirs.fc if hasattr(theirs, "fc") else theirs.proxies)):
        value = loss(x, labels, terms)
        grad_x, grad_weight = torch.autograd.grad(value, (x, weight))
        results.append([value, grad_x, grad_weight.T if hasattr(loss, "fc") else grad_weight])
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-9)
    assert results[0][0] != 0


@pytest.mark.filterwarnings("ignore:gamma")
@pytest.mark.parametrize("settings", [(20, 0.1, 0.01), (17.69, 19.18, 0.3588), (100, 47.9, 0.3145), (5, 0.01, -0.2)])
@pytest.mark.parametrize("mined", MINERS)
def test_soft_triple(settings, mined):
    x, labels = batch()
    ours, theirs = soft_triple(settings)
    assert_equal(ours, theirs, MINERS[mined](x, labels))
    torch.testing.assert_close(ours.get_logits(x), theirs.get_logits(x))


@pytest.mark.parametrize("distance", [COSINE, DOT], ids=["cosine", "dot"])
@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_soft_triple_with_its_distances_and_regularizers(distance, regularizer):
    make = REGULARIZERS[regularizer]
    ours, theirs = soft_triple(distance=distance, weight_regularizer=make(), weight_reg_weight=0.2)
    assert_equal(ours, theirs)
    ours.normalize = "lipschitz"  # belongs to the default similarity only
    assert_equal(ours, theirs)


def test_soft_triple_regularized_by_either_sparse_centers():
    assert_equal(
        *soft_triple(
            weight_reg_weight=0.2,
            ours={"weight_regularizer": SparseCentersRegularizer(C, K)},
            theirs={"weight_regularizer": regularizers.SparseCentersRegularizer(C, K)},
        )
    )
    assert_equal(*soft_triple(weight_reg_weight=0.2, weight_regularizer=SparseCentersRegularizer(C, K)))


def test_soft_triple_with_an_embedding_regularizer():
    assert_equal(*soft_triple(embedding_regularizer=regularizers.LpRegularizer(), embedding_reg_weight=0.3))


@pytest.mark.parametrize(
    "reducer",
    [
        reducers.MeanReducer(),
        reducers.SumReducer(),
        reducers.AvgNonZeroReducer(),
        reducers.ThresholdReducer(low=0.5),
        reducers.ClassWeightedReducer(torch.linspace(0.5, 2.0, C)),
        reducers.MultipleReducers({"loss": reducers.SumReducer()}),
    ],
    ids=lambda reducer: type(reducer).__name__,
)
@pytest.mark.parametrize("regularizer", ["none", "sparse"])
def test_soft_triple_with_its_reducers(reducer, regularizer):
    regularizer = REGULARIZERS[regularizer]()
    assert_equal(*soft_triple(reducer=reducer, weight_regularizer=regularizer), terms=MINERS["triplets"](*batch()))


def test_a_reducer_that_divides_and_one_that_does_nothing():
    x, labels = batch()
    ours, theirs = soft_triple(reducer=reducers.DoNothingReducer(), weight_regularizer=SparseCentersRegularizer(C, K))
    parts, expected = ours(x, labels), theirs(x, labels)
    assert parts.keys() == expected.keys() == {"loss", "weight_reg_loss"}
    torch.testing.assert_close(parts["loss"]["losses"], expected["loss"]["losses"])
    torch.testing.assert_close(parts["loss"]["indices"], expected["loss"]["indices"])
    torch.testing.assert_close(parts["weight_reg_loss"]["losses"], expected["weight_reg_loss"]["losses"])
    mean = parts["loss"]["losses"].mean()
    ours.reducer, ours.weight_regularizer = reducers.DivisorReducer(), None
    torch.testing.assert_close(ours(x, labels), mean)


def test_soft_triple_refuses_its_distances_that_are_no_similarity():
    with pytest.raises(LabError, match="LpDistance"):
        SoftTripleLoss(C, D, K, distance=SPHERE)(*batch())
    with pytest.raises(AssertionError):
        peer.SoftTripleLoss(C, D, K, distance=SPHERE)


@pytest.mark.parametrize("temperature", [0.05, 0.1, 2.0])
@pytest.mark.parametrize("ours_kind", [{}, {"distance": SPHERE}, {"normalize": None}, {"distance": PLAIN}])
def test_proxy_nca(temperature, ours_kind):
    plain = ours_kind.get("normalize", "") is None or ours_kind.get("distance") is PLAIN
    theirs = peer.ProxyNCALoss(C, D, softmax_scale=1 / temperature, distance=PLAIN if plain else SPHERE)
    assert_equal(*pair(ProxyNCALoss(C, D, temperature=temperature, **ours_kind), theirs))


def test_proxy_nca_with_a_similarity():
    theirs = peer.ProxyNCALoss(C, D, softmax_scale=4, distance=COSINE, weight_regularizer=regularizers.LpRegularizer())
    ours = ProxyNCALoss(C, D, temperature=0.25, distance=COSINE, weight_regularizer=regularizers.LpRegularizer())
    assert_equal(*pair(ours, theirs))


@pytest.mark.parametrize("settings", [(0.1, 32), (0.0, 1.0), (0.4, 80)])
@pytest.mark.parametrize("mined", MINERS)
@pytest.mark.parametrize("options", [{}, {"distance": DOT}, {"distance": SPHERE}], ids=["l2", "dot", "distance"])
def test_proxy_anchor(settings, mined, options):
    x, labels = batch()
    both = ProxyAnchorLoss(C, D, *settings, **options), peer.ProxyAnchorLoss(C, D, *settings, **options)
    assert_equal(*pair(*both), MINERS[mined](x, labels))


@pytest.mark.parametrize("reducer", [reducers.SumReducer(), reducers.MeanReducer(), reducers.DivisorReducer()])
def test_proxy_anchor_with_its_reducers(reducer):
    options = {"reducer": reducer, "weight_regularizer": regularizers.LpRegularizer()}
    assert_equal(*pair(ProxyAnchorLoss(C, D, **options), peer.ProxyAnchorLoss(C, D, **options)))


@pytest.mark.parametrize("loss", [SoftTripleLoss(C, D), ProxyNCALoss(C, D), ProxyAnchorLoss(C, D)])
def test_inside_multiple_losses(loss):
    x, labels = batch()
    miner = miners.TripletMarginMiner(margin=0.4)
    both = peer.MultipleLosses([loss, peer.MultiSimilarityLoss()], miners=[miner, None], weights=[0.5, 2.0])(x, labels)
    torch.testing.assert_close(
        both, 0.5 * loss(x, labels, miner(x, labels)) + 2.0 * peer.MultiSimilarityLoss()(x, labels)
    )
