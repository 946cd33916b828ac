# %% [markdown]
# # TCA-SpMM, from idea to figure
# Y. Han et al., Electronics 13(20), 2024, doi 10.3390/electronics13203981. The other methods look for dense
# pieces in A. TCA-SpMM does not: it turns each **dot product** into a small matrix product. A row's
# nonzeros, at most 64 at once, fill an 8 x 8 operand column by column; the matching entries of a column of
# B fill the other operand row by row; the **trace** of the result is the dot product. So the MMAs depend
# on the lengths of rows alone, never on where their nonzeros are, and no format has to be packed.

# %%
"""TCA-SpMM: from rows to fragments, equation 2, a product and the counts of the paper's equations.

python3 notebooks/story_tca_spmm.py [FOLDER]
"""

import needs  # noqa: F401  looks for a Python that has what follows

import numpy as np

from paper_story import Story, side_by_side, tell_claims

story = Story("story_tca_spmm")

# %% [markdown]
# ## A row becomes a fragment
# A row of at most eight nonzeros needs one column of the 8 x 8 operand; then a 16 x 8 operand holds 16
# columns of B, and an MMA gives 16 elements of C. With 9 to 16 nonzeros it gives eight, then four, then
# two; above 64 a row takes several MMAs for two elements. Equation 2 is that table, and equation 1 its
# sum over full fragments.

# %%
WIDTH = 32  # columns of B


def mmas_of_row(nonzeros: int, n: int) -> int:
    """Equation 2: the MMAs (m16n8k8) of a row for n columns of B."""
    for most, outputs in ((0, None), (8, 16), (16, 8), (32, 4), (64, 2)):
        if nonzeros <= most:
            return 0 if outputs is None else -(-n // outputs)
    return -(-nonzeros // 64) * -(-n // 2)


GRAPH = "rmat(scale=8, edge_factor=8)"
pattern = story.matrix(GRAPH)
lengths = np.bincount(pattern.rows, minlength=pattern.shape[0])
mmas = np.array([mmas_of_row(int(length), WIDTH) for length in lengths])
figure, (left, right) = side_by_side(height=2.6)
left.plot(pattern.cols, pattern.rows, ".", color="black", markersize=1)
left.set(aspect="equal", xlabel="column", ylabel="row", title="where the nonzeros are: no matter",
         xlim=(0, pattern.shape[1]), ylim=(pattern.shape[0], 0))
right.plot(lengths, mmas, ".", color="black")
right.set(xlabel="nonzeros of a row", ylabel=f"MMAs of the row, N = {WIDTH}",
          title=f"how many a row has: {mmas.sum():,} MMAs")
for edge in (8, 16, 32, 64):
    right.axvline(edge + 0.5, color="#bbbbbb", linewidth=0.5)
story.show(figure, "rows")

# %% [markdown]
# ## The kernel
# The product emulated bit for bit and compared with fp64, then simulated for an H200. The counter
# `sm__inst_executed_pipe_tensor.sum` of the simulation is the number of its MMAs, and has to be the sum
# above.

# %%
story.product(GRAPH, "tca_spmm", "--n", str(WIDTH), "--set", "as=published")
counted = [line.split()[-1] for line in story.tessera(
    "multiply", GRAPH, "--kernel", "tca_spmm", "--n", str(WIDTH), "--set", "as=published",
    "--backend", "simulate").splitlines() if "inst_executed_pipe_tensor" in line]
print(f"MMAs by equation 2: {mmas.sum():,}; by the simulated counter: {', '.join(counted)}")

# %% [markdown]
# ## Equations 1 and 2 over sparsity
# The config of the equations, here with three matrices and one width to be quick. Each MMA does at most
# an eighth of its multiplications on nonzeros (the trace of 8 x 8), which is why packed tiles, where they
# are full, need fewer.

# %%
story.paper_figure("tca_counts", "mma_sparsity", 'grid.matrix=["uniform(rows=2048, density=0.1)", '
                   '"uniform(rows=2048, density=0.02)", "uniform(rows=2048, density=0.01)"]',
                   "grid.n=[24]")

# %% [markdown]
# ## The verdicts
# From the claims page, which was made on one H200.

# %%
tell_claims("TCA-SpMM")
