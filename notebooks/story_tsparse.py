# %% [markdown]
# # tSparse, from idea to figure
# O. Zachariadis et al., Computers and Electrical Engineering 88, 2020, doi 10.1016/j.compeleceng.2020.106848.
# Sparse times sparse on tensor cores. Both factors are cut into 8 x 8 **tiles**; only tiles with a nonzero
# are kept, each with a **bitmap** of 64 bits. Pairs of tiles that meet make a **task list**; sorted by the
# tile of C, it is counted (bitmaps decide how many nonzeros C has), and multiplied, two tiles an MMA of
# 16 x 16 (sections 3 and 4). Inputs are FP16, sums FP32.

# %%
"""tSparse: from a matrix to bitmap tiles, tasks, a product and the paper's figure 12.

python3 notebooks/story_tsparse.py [FOLDER]
"""

import needs  # noqa: F401  looks for a Python that has what follows

import numpy as np

from paper_story import Story, draw_tiles, side_by_side, tell_claims, tile_counts

story = Story("story_tsparse")

# %% [markdown]
# ## Tiles, and the work of A times A
# Left a mesh whose tiles are full, right a graph whose tiles are nearly empty. A product by elements
# multiplies pairs of nonzeros, one by tiles pairs of tiles. Their ratio is the paper's criterion for when
# tiles pay (table 2): it wants nine products of elements for each of tiles against AC-SpGEMM.

# %%
SPECS = {"mesh": "elasticity3d(nx=3, ny=2, nz=2)", "graph": "rmat(scale=7, edge_factor=4)"}


def products(counts: np.ndarray) -> int:
    """The pairs that meet in A times A, from the nonzeros of A, or of its tiles, by place."""
    return int((counts > 0).sum(axis=0) @ (counts > 0).sum(axis=1))


figure, sides = side_by_side()
for axes, (name, spec) in zip(sides, SPECS.items()):
    pattern = story.matrix(spec)
    draw_tiles(axes, pattern, 8, 8, name)
    elements, tiles = (products(tile_counts(pattern, size, size)) for size in (1, 8))
    print(f"{name}: {elements:,} products of elements, {tiles:,} of tiles: {elements / tiles:.1f} each")
story.show(figure, "tiles")

# %% [markdown]
# ## The kernel as the paper has it
# `as=published` takes every choice of the paper. A times A is emulated bit for bit and compared with
# fp64, then simulated for an H200.

# %%
story.product(SPECS["mesh"], "tsparse", "--right", "self", "--set", "as=published")

# %% [markdown]
# ## The paper's figure 12
# What FP16 inputs cost: SMAPE in percent, which is half of a relative error. Patterns lose nothing, since
# small integers are exact in FP16. Emulated, so the errors are those of the GPU.

# %%
story.paper_figure("tsparse_fig12", "smape")

# %% [markdown]
# ## The verdicts
# From the claims page, which was made on one H200.

# %%
tell_claims("tSparse")
