"""Products on a GPU from Python: bits of the emulation, streams, new values, memory of PyTorch."""

import sys

import python_package

python_package.need("pytest", "numpy", "torch")
import numpy as np
import pytest
import torch

import tessera

if not (tessera.has_gpu() and torch.cuda.is_available()):
    sys.exit(python_package.skip(tessera.gpu_problem() or "PyTorch has no GPU"))

A = tessera.Matrix("rmat(scale=10, edge_factor=8)")


def dense(n, dtype=torch.float32):
    generator = torch.Generator("cpu").manual_seed(5)
    return (torch.rand(A.shape[1], n, generator=generator) * 2 - 1).to("cuda", dtype)


@pytest.mark.parametrize("kernel", ["rows_spmm", "tessera_spmm", "tessera_spmm(precision=tf32x3)"])
@pytest.mark.parametrize("n", [1, 32, 128])
def test_a_product_on_the_gpu_has_the_bits_of_its_emulation(kernel, n):
    b = dense(n)
    c = tessera.multiply(A, b, kernels=[kernel])
    assert c.is_cuda and np.array_equal(c.cpu().numpy(), tessera.emulate(A, b.cpu().numpy(), kernel))


def test_default_products_are_inside_the_bounds_of_their_precision():
    b = dense(64)
    for precision in ("fastest", "tf32", "fp32"):
        plan = tessera.Plan(A, 64, precision=precision)
        c = plan.run(b).cpu().numpy()
        kernel = plan.describe()["kernel"]
        assert tessera.errors(A, b.cpu().numpy(), c, kernel=kernel)["ok"], kernel


def test_strided_operands_alpha_beta_and_streams():
    wide, out = dense(40), torch.full((A.shape[0], 50), 3.0, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        tessera.multiply(A, wide[:, :32], out[:, :32], alpha=2, beta=1, precision="fp32")
    stream.synchronize()
    expected = 2 * torch.from_numpy(A.to_dense()).cuda().double() @ wide[:, :32].double() + 3
    assert torch.allclose(out[:, :32].double(), expected, atol=1e-3)
    assert (out[:, 32:] == 3).all()


def test_new_values_give_the_product_of_the_matrix_that_has_them():
    b = dense(48)
    values = torch.rand(A.nnz, device="cuda")
    order = tessera.reorder(A, "degree")
    for rows in (None, order.rows):
        for kernel in ("rows_spmm", "tessera_spmm"):
            plan = tessera.Plan(A, 48, kernels=[kernel], sets_values=True, row_order=rows)
            plan.run(b)
            plan.set_values(values)
            changed = A.with_values(values.cpu().numpy())
            fresh = tessera.Plan(changed, 48, kernels=[kernel], row_order=rows)
            assert torch.equal(plan.run(b), fresh.run(b))
    with pytest.raises(tessera.InvalidError, match="sets_values"):
        tessera.Plan(A, 48).set_values(values)


def test_wrong_operands_are_refused():
    plan = tessera.Plan(A, 16)
    with pytest.raises(tessera.InvalidError, match="host memory"):
        plan.run(dense(16).cpu(), out=torch.empty(A.shape[0], 16))
    with pytest.raises(tessera.InvalidError, match="it has to be"):
        plan.run(dense(17))
    with pytest.raises(tessera.InvalidError, match="strided"):
        plan.run(dense(20)[:, :16])
    assert plan.workspace_bytes == 0


if __name__ == "__main__":
    sys.exit(python_package.main(__file__))
