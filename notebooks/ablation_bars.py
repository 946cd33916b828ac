# %% [markdown]
# # Ablation bars
# One group per matrix, the steps of an ablation in order, light to dark in one hue, with the
# reference as a line.

# %%
"""Ablation bars: the ordered steps of an ablation as shades of one hue."""

import needs  # noqa: F401  looks for a Python that has what follows
import sys

from bars import draw_groups

from figure import DASHES, MARKERS, Kind, Look, Looks, hatch_of, mix, patch_handle, run
from figure_data import FigureData


# %%
def step_looks(data: FigureData) -> Looks:
    """Shades from pale to deep blue in the order of the steps; the hatch contrasts with each."""
    pale, deep = (0.80, 0.89, 0.96), (0.02, 0.19, 0.42)
    names = list(dict.fromkeys(s.name for s in data.distinct_series()))
    result: Looks = {}
    for series in data.distinct_series():
        rank = names.index(series.name) / max(1, len(names) - 1)
        shade = mix(pale, deep, rank)
        contrast = deep if rank < 0.5 else (1.0, 1.0, 1.0)
        result[series.name, series.origin] = Look(
            face=shade,
            color=shade if rank >= 0.5 else mix(shade, deep, 0.5),
            hatch_color=contrast if series.predicted else shade,
            hatch=hatch_of(series.origin, 0),
            dash=DASHES[series.origin],
            marker=MARKERS[0],
        )
    return result


# %%
KIND = Kind("ablation_bars", draw_groups, patch_handle, looks=step_looks,
            x_categories=True)

if __name__ == "__main__":
    sys.exit(run(KIND))
