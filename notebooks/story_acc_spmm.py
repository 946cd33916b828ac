# %% [markdown]
# # Acc-SpMM, from idea to figure
# H. Zhao et al., PPoPP 2025, doi 10.1145/3710848.3710888. Four techniques on one kernel: an **order** that
# puts rows with common neighbours together, so that the pieces fed to tensor cores, **TC blocks**, are
# fuller (section 3.2); a **format**, BitTCF, that stores the places of a block's nonzeros as 64 bits (3.3);
# a **pipeline** that loads the next block during the multiplication of this one (3.4); and a **balance** of
# thread blocks where row windows differ much (3.5).

# %%
"""Acc-SpMM: from a matrix to TC blocks, an order, a product and the paper's figure 15.

python3 notebooks/story_acc_spmm.py [FOLDER]
"""

import needs  # noqa: F401  looks for a Python that has what follows

from paper_story import Story, condensed, draw_tiles, side_by_side, tell_claims

story = Story("story_acc_spmm")

# %% [markdown]
# ## TC blocks, and what the order does to them
# A graph of communities under random labels. A window is 8 rows; its active columns are packed to the
# left and cut into blocks of 8 x 8. (The paper swaps the factors, so the 8 x 8 operand of an MMA is the
# sparse one.) Left in the order given, right in the paper's *data-affinity* order: the same nonzeros in
# fewer blocks. MeanNNZTC, the paper's measure, is the mean that stands above each picture.

# %%
GRAPH = "shuffle(of=sbm(n=128, blocks=8, degree_in=10, degree_out=1))"
figure, (left, right) = side_by_side()
draw_tiles(left, condensed(story.matrix(GRAPH), 8), 8, 8, "random labels, packed")
draw_tiles(right, condensed(story.reordered(GRAPH, "affinity"), 8), 8, 8, "affinity, packed")
for axes in (left, right):
    axes.set_xlabel("rank of the column in its window")
story.show(figure, "tc_blocks")

# %% [markdown]
# ## The format
# ME-TCF, its predecessor in DTC-SpMM, has a byte a nonzero for its place in the block (`tc_local_id`).
# BitTCF has a bit a cell (`tc_local_bit`), 8 bytes a block, which is less as soon as a block has more
# than eight nonzeros. The other arrays differ too, since blocks of ME-TCF are 16 rows high and those of
# BitTCF 8.

# %%
for name in ("me_tcf", "bit_tcf"):
    print(story.tessera("pack", GRAPH, "--format", name, "--reorder", "affinity"))

# %% [markdown]
# ## The kernel as the paper has it
# `as=published` takes every choice of the paper. The product is emulated bit for bit and compared with
# fp64; then its time is simulated for an H200.

# %%
story.product(GRAPH, "acc_spmm", "--n", "64", "--set", "as=published", "--reorder", "affinity")

# %% [markdown]
# ## The paper's figure 15
# The techniques one after another, each on top of those before it, over DTC-SpMM's kernel. Here over
# matrices by formula, simulated, unless this machine has a GPU and files.

# %%
story.paper_figure("acc_spmm_fig15", "ladder")

# %% [markdown]
# ## The verdicts
# From the claims page, which was made on one H200 with 24 real matrices.

# %%
tell_claims("Acc-SpMM")
