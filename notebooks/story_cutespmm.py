# %% [markdown]
# # cuTeSpMM, from idea to figure
# L. Xiang et al., 2025, doi 10.48550/arXiv.2504.06443. A tensor core multiplies small dense pieces of
# A, 16 x 4 **bricks**. In most sparse matrices such a piece holds one or two nonzeros. cuTeSpMM packs
# first: of every **row panel** (16 rows) it keeps the columns that have a nonzero, its *active
# columns*, and pushes them to the left (section 3, format HRPB). The share of a brick that is then
# nonzero, **alpha**, decides everything else: the paper's *TCU-Synergy* is alpha in three classes.

# %%
"""cuTeSpMM: from a matrix to bricks, a product and the paper's figure 7.

python3 notebooks/story_cutespmm.py [FOLDER]
"""

import needs  # noqa: F401  looks for a Python that has what follows

from paper_story import Story, condensed, draw_tiles, side_by_side, tell_claims

story = Story("story_cutespmm")

# %% [markdown]
# ## A matrix by formula, and its bricks
# Elasticity on a thin beam, and the same matrix under random labels. Left: bricks of the matrix as it
# is. Right: bricks after the active columns are packed. The random labels cost density that packing
# cannot bring back, because neighbouring rows no longer share their columns.

# %%
MESH = "elasticity3d(nx=14, ny=1, nz=1)"
SHUFFLED = f"shuffle(of={MESH})"
for number, (name, spec) in enumerate((("mesh", MESH), ("random labels", SHUFFLED))):
    figure, (left, right) = side_by_side()
    pattern = story.matrix(spec)
    draw_tiles(left, pattern, 16, 4, f"{name}, as it is")
    full = draw_tiles(right, condensed(pattern, 16), 16, 4, f"{name}, panels packed")
    alpha = full.mean() / 64
    synergy = "low" if alpha < 0.125 else "medium" if alpha < 0.25 else "high"
    right.set_xlabel("rank of the column in its panel")
    story.show(figure, f"bricks_{number}")
    print(f"{name}: alpha = {alpha:.3f}, {synergy} synergy (table 1)")

# %% [markdown]
# ## The kernel as the paper has it
# `as=published` takes every choice of the paper: TM = 16, TK = 16, TN = 32 (section 4). The product is
# emulated bit for bit and compared with fp64; then its time is simulated for an H200. A matrix as small
# as this one is all launch. (`balance=sorted` leaves the paper's virtual panels out: their atomic
# additions have no fixed order, so no bits to emulate.)

# %%
story.product(MESH, "cutespmm", "--n", "32", "--set", "as=published", "--set", "balance=sorted")

# %% [markdown]
# ## The model, and the paper's figure 7
# Each brick of A takes ceil(64 alpha / 32) + 2 transactions of shared memory, and four rows of B. At TN
# = 32 both are equal, and the operational intensity is 512 alpha FLOP a transaction (equation 4). Figure
# 7 holds that against speed. Here it is drawn over matrices by formula, from simulated times unless this
# machine has a GPU and files.

# %%
story.paper_figure("cutespmm_fig7", "oi")

# %% [markdown]
# ## The verdicts
# From the claims page, which was made on one H200 with 24 real matrices.

# %%
tell_claims("cuTeSpMM")
