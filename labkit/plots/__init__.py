"""Pictures of embedding spaces and of training: arrays or a Recording in, a plotly figure out."""

from labkit.plots.animation import animation
from labkit.plots.curves import covering_curves, metric_strips, proxy_spread_over_time
from labkit.plots.embedding_map import embedding_map
from labkit.plots.gallery import problem_gallery
from labkit.plots.histograms import distance_histograms

__all__ = [
    "animation",
    "covering_curves",
    "distance_histograms",
    "embedding_map",
    "metric_strips",
    "problem_gallery",
    "proxy_spread_over_time",
]
