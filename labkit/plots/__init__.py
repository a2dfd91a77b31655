"""Pictures of embedding spaces and of training: arrays or a Recording in, a plotly figure out."""

from labkit.plots.animation import animation
from labkit.plots.bounds import anchor_bound, chance_constraint
from labkit.plots.centers import center_choice, center_merging, class_regions, distinct_centers
from labkit.plots.class_curves import class_curves
from labkit.plots.class_table import class_table
from labkit.plots.covering_figure import covering_picture
from labkit.plots.curves import covering_curves, metric_strips, proxy_spread_over_time
from labkit.plots.domain_figures import domain_strips
from labkit.plots.embedding_map import embedding_map
from labkit.plots.gallery import problem_gallery
from labkit.plots.gradient_fields import gradient_field
from labkit.plots.histograms import distance_histograms
from labkit.plots.loss_profiles import loss_profile
from labkit.plots.problem_maps import problem_maps
from labkit.plots.protocols import protocol_picture
from labkit.plots.ranked_lists import negative_weight_curves, negative_weights, ranked_list
from labkit.plots.run_gallery import run_gallery
from labkit.plots.setting_grid import setting_heat_map
from labkit.plots.settings import setting_effect
from labkit.plots.subgraphs import sample_subgraph

__all__ = [
    "anchor_bound",
    "animation",
    "center_choice",
    "center_merging",
    "chance_constraint",
    "class_curves",
    "class_regions",
    "class_table",
    "covering_curves",
    "covering_picture",
    "distance_histograms",
    "distinct_centers",
    "domain_strips",
    "embedding_map",
    "gradient_field",
    "loss_profile",
    "metric_strips",
    "negative_weight_curves",
    "negative_weights",
    "problem_gallery",
    "problem_maps",
    "protocol_picture",
    "proxy_spread_over_time",
    "ranked_list",
    "run_gallery",
    "sample_subgraph",
    "setting_effect",
    "setting_heat_map",
]
