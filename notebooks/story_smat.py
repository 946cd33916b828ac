# %% [markdown]
# # SMaT, from idea to figure
# P. Okanovic et al., 2024, doi 10.48550/arXiv.2408.11551, and its poster. SMaT stores A as **BCSR**: dense
# blocks on a fixed grid, each fed to tensor cores whole. The work is then a count of blocks, and the
# time is **T = T_e n_e + T_init**: a time for each of n_e blocks, and the start. So there are two ways to
# be faster: fewer blocks (rows with similar columns are put together, by Jaccard distance) and a
# cheaper block (the ladder *naive, B, T, BT, CBT*).

# %%
"""SMaT: from a matrix to blocks, a clustering, a product and the poster's ladder.

python3 notebooks/story_smat.py [FOLDER]
"""

import needs  # noqa: F401  looks for a Python that has what follows

from paper_story import Story, draw_tiles, side_by_side, tell_claims

story = Story("story_smat")

# %% [markdown]
# ## Fewer blocks by clustering rows
# Dense blocks at random places, their rows then mixed: every block of the grid holds a little, and is
# stored whole. Clustering finds rows that belong together. `block_cols=16` compares rows by the blocks
# that they touch, as wide as those that are stored.

# %%
MIXED = "shuffle(of=block_random(rows=128, block=16, per_block_row=2), sides=rows)"
figure, (left, right) = side_by_side()
draw_tiles(left, story.matrix(MIXED), 16, 16, "rows mixed")
draw_tiles(right, story.reordered(MIXED, "jaccard", "block_cols=16"), 16, 16, "rows clustered")
story.show(figure, "blocks")

# %% [markdown]
# ## A cheaper block
# The kernel with the poster's choices, emulated and compared with fp64, then simulated for an H200. It
# multiplies in FP16, so its error is that of ten fraction bits.

# %%
story.product(MIXED, "smat", "--n", "8", "--set", "as=published", "--reorder", "jaccard",
              "--set", "reorder.block_cols=16")

# %% [markdown]
# ## The poster's ladder
# Time against the number of blocks, rung by rung, on full bands. Where a curve is flat on the left,
# T_init is all there is. Without a GPU the bands are smaller and the times are simulated.

# %%
story.paper_figure("smat_ladder", "time_n8")

# %% [markdown]
# ## The verdicts
# From the claims page, which was made on one H200.

# %%
tell_claims("SMaT")
