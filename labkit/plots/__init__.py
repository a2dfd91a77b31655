"""Pictures of embedding spaces and of training: arrays or a Recording in, a plotly figure out; and what they are made of.

Every function that draws takes `title`, which stands instead of the finding, and `width` in pixels of the whole figure.
"""

from labkit.plots.animation import animation
from labkit.plots.bounds import anchor_bound, chance_constraint
from labkit.plots.centers import center_choice, center_merging, distinct_centers
from labkit.plots.class_curves import class_curves
from labkit.plots.class_table import class_table, shaded
from labkit.plots.covering_figure import covering_picture
from labkit.plots.covering_steps import CoveringSteps, class_sets, example_sets
from labkit.plots.curves import metric_strips, proxy_spread_over_time
from labkit.plots.domain_figures import domain_strips
from labkit.plots.embedding_map import embedding_map
from labkit.plots.gallery import problem_gallery
from labkit.plots.gradient_fields import field_values, gradient_field
from labkit.plots.histograms import distance_histograms
from labkit.plots.loss_profiles import loss_profile, profile_values
from labkit.plots.moments import chosen_snapshot, moments_of
from labkit.plots.neighbourhood import nearest_to, neighbour_gallery
from labkit.plots.palette import run_line
from labkit.plots.problem_maps import problem_maps
from labkit.plots.protocols import protocol_picture
from labkit.plots.radius_curves import covering_curves
from labkit.plots.ranked_lists import negative_weight_curves, negative_weights, ranked_list
from labkit.plots.regions import class_regions
from labkit.plots.run_gallery import run_gallery
from labkit.plots.setting_grid import setting_heat_map
from labkit.plots.settings import setting_effect
from labkit.plots.standing_out import choose_classes
from labkit.plots.subgraphs import sample_subgraph

__all__ = [
    "CoveringSteps",
    "anchor_bound",
    "animation",
    "center_choice",
    "center_merging",
    "chance_constraint",
    "choose_classes",
    "chosen_snapshot",
    "class_curves",
    "class_regions",
    "class_sets",
    "class_table",
    "covering_curves",
    "covering_picture",
    "distance_histograms",
    "distinct_centers",
    "domain_strips",
    "embedding_map",
    "example_sets",
    "field_values",
    "gradient_field",
    "loss_profile",
    "metric_strips",
    "moments_of",
    "nearest_to",
    "negative_weight_curves",
    "negative_weights",
    "neighbour_gallery",
    "problem_gallery",
    "problem_maps",
    "profile_values",
    "protocol_picture",
    "proxy_spread_over_time",
    "ranked_list",
    "run_gallery",
    "run_line",
    "sample_subgraph",
    "setting_effect",
    "setting_heat_map",
    "shaded",
]
