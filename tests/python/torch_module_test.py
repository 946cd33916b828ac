"""SparseOperator inside what surrounds it in PyTorch: opcheck, torch.compile, modules and their states,
autocast, threads, CUDA graphs and streams."""

import contextlib
import copy
import io
import pickle
import shutil
import threading
import time

from torch_support import (
    SparseOperator,
    assert_product,
    dense,
    main,
    needs_gpu,
    on_each_device,
    pytest,
    sparse,
    tessera,
    torch,
)

OPS, opcheck = torch.ops.tessera, torch.library.opcheck
WORTH_REORDERING = "shuffle(of=elasticity3d(nx=14))"


class Layer(torch.nn.Module):
    """A graph convolution."""

    def __init__(self, a, learnable=False):
        super().__init__()
        self.a = SparseOperator(a.to_sparse_csr(), learnable=learnable, precision="fp32")
        self.linear = torch.nn.Linear(6, 4)

    def forward(self, x):
        return self.a(self.linear(x)).relu()


def layer(device, learnable=False):
    torch.manual_seed(0)
    return Layer(sparse(20, 20), learnable).to(device)


# ---- operators -----------------------------------------------------------------------------------


@on_each_device
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64])
@pytest.mark.parametrize("transposed", [False, True])
def test_the_product_passes_opcheck(device, dtype, transposed):
    operator = SparseOperator(sparse(20, 15, device=device).to_sparse_csr())
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    values = operator.values.detach().to(wide).requires_grad_()
    inner, outer = (20, 15) if transposed else (15, 20)
    for shape in ((inner, 8), (2, inner, 3)):
        b = dense(*shape, dtype=dtype, device=device).requires_grad_()
        opcheck(OPS.spmm.default, (values, b, operator._number, outer, transposed, 0))


@on_each_device
@pytest.mark.parametrize("transposed", [False, True])
def test_the_product_with_the_values_that_an_operator_holds_passes_opcheck(device, transposed):
    operator = SparseOperator(sparse(20, 15, device=device).to_sparse_csr())
    side = -operator._number if transposed else operator._number
    for shape in ((8,), (3, 8)):
        b = dense(*shape[:-1], 20 if transposed else 15, shape[-1], device=device)
        opcheck(OPS._multiply.default, (b, side))
        opcheck(OPS._multiply.default, (b[None].movedim(-2, 0).contiguous().movedim(0, -2), side))
    with pytest.raises(RuntimeError, match="holds no values"):
        OPS._multiply.default(b.double(), side)


@on_each_device
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("wide", [False, True])
def test_sampled_products_pass_opcheck(device, dtype, wide):
    operator = SparseOperator(sparse(20, 15, device=device).to_sparse_csr())
    x, y = (dense(rows, 6, dtype=dtype, device=device).requires_grad_() for rows in (20, 15))
    opcheck(OPS.sddmm.default, (x, y, operator._number, operator.nnz, wide))


@on_each_device
def test_the_product_into_out_passes_opcheck(device):
    operator = SparseOperator(sparse(20, 15, device=device).to_sparse_csr())
    b, c = dense(15, 8, device=device), torch.zeros(20, 8, device=device)
    opcheck(OPS._spmm_out.default, (operator.values, b, c, operator._number, False, 0, 2.0, 1.0))


# ---- torch.compile -------------------------------------------------------------------------------


@on_each_device
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("learnable", [False, True])
def test_a_compiled_module_is_one_graph_with_the_same_results(device, backend, learnable):
    if backend == "inductor" and not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("inductor needs a C++ compiler")
    torch._dynamo.reset()
    module = layer(device, learnable)
    compiled = torch.compile(module, backend=backend, fullgraph=True)
    x = dense(20, 6, device=device).requires_grad_()
    results = []
    for call in (module, compiled):
        module.zero_grad()
        x.grad = None
        c = call(x)
        c.square().sum().backward()
        results.append([c, x.grad, *(parameter.grad for parameter in module.parameters())])
    assert all(torch.allclose(*pair, rtol=1e-4, atol=1e-5) for pair in zip(*results))


@on_each_device
def test_sampled_products_compile(device):
    torch._dynamo.reset()
    operator = SparseOperator(sparse(20, 15, device=device).to_sparse_csr(), precision="fp32")

    def attend(x, y):
        return operator(y, operator.sddmm(x, y).sigmoid()).sum()

    x, y = (
        dense(20, 6, device=device).requires_grad_(),
        dense(15, 6, device=device).requires_grad_(),
    )
    compiled = torch.compile(attend, backend="aot_eager", fullgraph=True)
    gradients = torch.autograd.grad(compiled(x, y), (x, y))
    expected = torch.autograd.grad(attend(x, y), (x, y))
    assert all(torch.allclose(*pair, rtol=1e-4, atol=1e-5) for pair in zip(gradients, expected))


@on_each_device
def test_a_compiled_function_uses_values_that_were_set(device):
    torch._dynamo.reset()
    a, b = sparse(20, 15, device=device), dense(15, 8, device=device)
    operator = SparseOperator(a.to_sparse_csr(), precision="fp32")
    compiled = torch.compile(lambda x: operator(x) + 0, backend="aot_eager", fullgraph=True)
    assert_product(compiled(b), a, b)
    operator.set_values(operator.values * 2)
    assert_product(compiled(b), 2 * a, b)


@on_each_device
def test_a_learnable_operator_learns_in_a_compiled_function(device):
    torch._dynamo.reset()
    a, b = sparse(20, 15, device=device), dense(15, 8, device=device)
    operator = SparseOperator(a.to_sparse_csr(), learnable=True, precision="fp32")
    compiled = torch.compile(lambda x: operator(x) + 0, backend="aot_eager", fullgraph=True)
    optimizer = torch.optim.SGD(operator.parameters(), lr=0.01)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = compiled(b).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[2] < losses[1] < losses[0]
    learned = operator.to_sparse_csr().detach().to_dense()
    assert_product(operator(b).detach(), learned, b)


# ---- modules -------------------------------------------------------------------------------------


@on_each_device
def test_a_state_restores_the_matrix_into_a_module_of_another(device):
    module, x = layer(device), dense(20, 6, device=device)
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    torch.manual_seed(1)
    other = Layer(torch.eye(3)).to(device)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert other.a.shape == (20, 20) and other.a.nnz == module.a.nnz
    # Each times its candidates, and may choose another kernel.
    torch.testing.assert_close(other(x), module(x))


def test_a_state_that_holds_no_matrix_is_refused():
    operator = SparseOperator(sparse(20, 20).to_sparse_csr())
    state = operator.state_dict()
    for name, index in (("col_indices", 99), ("row_offsets", 99)):
        broken = {key: copy.deepcopy(value) for key, value in state.items()}
        broken[name][1] = index
        with pytest.raises(ValueError, match="column indices reach|descend"):
            SparseOperator(torch.eye(3).to_sparse_csr()).load_state_dict(broken)


def test_a_state_keeps_the_parameter_of_a_learnable_operator():
    module = layer("cpu", learnable=True)
    parameter = module.a.values
    state = copy.deepcopy(module.state_dict())
    with torch.no_grad():
        parameter.zero_()
    module.load_state_dict(state)
    assert module.a.values is parameter and parameter.abs().sum() > 0


@on_each_device
def test_an_operator_is_pickled_and_copied(device):
    module, x = layer(device), dense(20, 6, device=device)
    for other in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module)):
        assert other.a._number != module.a._number and other.a.options == module.a.options
        # On a GPU each of the two chooses a kernel by timing, which need not be the same.
        assert torch.allclose(other(x), module(x), rtol=1e-4, atol=1e-5)


@needs_gpu
def test_an_operator_moves_to_another_device():
    module, x = layer("cpu"), dense(20, 6)
    expected = module(x)
    assert torch.allclose(module.to("cuda")(x.cuda()).cpu(), expected, rtol=1e-4, atol=1e-5)
    assert torch.equal(module.to("cpu")(x), expected)


def test_an_operator_in_another_type_multiplies_in_it():
    operator = SparseOperator(sparse(20, 20).to_sparse_csr()).double()
    assert operator.values.dtype == torch.float64 and operator.row_offsets.dtype == torch.int64
    assert operator(dense(20, 3, dtype=torch.float64)).dtype == torch.float64
    assert operator(dense(20, 3)).dtype == torch.float32


@on_each_device
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("compiles", [False, True])
def test_autocast_multiplies_in_its_type(device, dtype, compiles):
    torch._dynamo.reset()
    module, x = layer(device), dense(20, 6, device=device)
    call = torch.compile(module, backend="aot_eager", fullgraph=True) if compiles else module
    with torch.autocast(device, dtype=dtype):
        c = call(x)
        s = module.a.sddmm(x, x)
    assert c.dtype == dtype and s.dtype == dtype
    c.float().sum().backward()
    assert module.linear.weight.grad.dtype == torch.float32
    assert torch.allclose(c.float(), module(x), rtol=0.05, atol=0.05)


def test_inference_mode_multiplies():
    a, b = sparse(20, 15), dense(15, 8)
    operator = SparseOperator(a.to_sparse_csr())
    with torch.inference_mode():
        assert_product(operator(b), a, b)
        made_here = SparseOperator(a.to_sparse_csr())
        assert_product(made_here(b), a, b)
    assert_product(operator(b), a, b)


@on_each_device
def test_threads_share_an_operator(device):
    a = sparse(200, 150, device=device)
    operator = SparseOperator(a.to_sparse_csr(), precision="fp32")
    failures = []

    def work(seed):
        try:
            for i in range(20):
                b = dense(150, 8 + 8 * (i % 3), seed=seed + i, device=device)
                assert_product(operator(b), a, b)
                c = dense(200, 8, seed=seed + i, device=device)
                assert_product(operator.multiply_transposed(c), a.t(), c)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(100 * i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[0]


def test_the_printed_operator_names_its_size_and_options():
    text = str(SparseOperator(sparse(20, 15).to_sparse_csr(), precision="tf32"))
    assert "20 x 15" in text and "tf32" in text


def test_memory_that_torch_keeps_is_given_back_for_a_plan(monkeypatch):
    patterns, asked = tessera.torch._patterns, []

    def call(name, *arguments):
        asked.append(name)
        if asked == ["tessera_spmm_plan_create"]:
            raise tessera.OutOfMemoryError("no memory")

    monkeypatch.setattr(patterns.tessera, "call", call)
    monkeypatch.setattr(torch.cuda, "device", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: asked.append("empty_cache"))
    operator = SparseOperator(sparse(20, 15).to_sparse_csr())
    patterns._make_plan(operator._pattern, False, 8, 0)
    assert asked == ["tessera_spmm_plan_create", "empty_cache", "tessera_spmm_plan_create"]


# ---- what only a GPU has -------------------------------------------------------------------------


@needs_gpu
def test_streams_share_a_workspace_in_turn():
    a = sparse(3000, 2000, density=0.05, device="cuda")
    operator = SparseOperator(a.to_sparse_csr(), precision="fp32")
    operators_b = [dense(2000, 64, seed=i, device="cuda") for i in range(16)]
    operator(operators_b[0])
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(4)]
    results = []
    for i, b in enumerate(operators_b):
        with torch.cuda.stream(streams[i % 4]):
            results.append(operator(b))
    torch.cuda.synchronize()
    for b, c in zip(operators_b, results):
        assert_product(c, a, b)


@needs_gpu
@pytest.mark.parametrize("learnable", [False, True])
def test_a_graph_replays_with_what_its_operands_hold_then(learnable):
    a = sparse(300, 200, device="cuda")
    operator = SparseOperator(a.to_sparse_csr(), precision="fp32", learnable=learnable)
    b = dense(200, 32, device="cuda")
    with torch.no_grad():
        operator(b)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            c = operator(b)
        for scale in (1, 3):
            b.copy_(dense(200, 32, seed=scale, device="cuda"))
            if scale != 1:
                operator.set_values(operator.values * scale)
                if not learnable:
                    operator(b)  # the plan takes fixed values with the next product
            graph.replay()
            assert_product(c, scale * a, b)
        assert_product(operator(b), 3 * a, b)


@needs_gpu
def test_a_training_step_is_captured():
    a = sparse(300, 300, device="cuda")
    operator = SparseOperator(a.to_sparse_csr(), precision="fp32", learnable=True)
    b = dense(300, 32, device="cuda").requires_grad_()

    def step():
        operator.values.grad = b.grad = None
        operator(b).square().sum().backward()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    operator.values.grad = b.grad = None
    with torch.cuda.graph(graph):
        operator(b).square().sum().backward()
    with torch.no_grad():
        operator.values.mul_(2)
    graph.replay()
    captured = operator.values.grad.clone(), b.grad.clone()
    step()
    for got, expected in zip(captured, (operator.values.grad, b.grad)):
        assert torch.allclose(got, expected, rtol=1e-4, atol=1e-4 * expected.abs().max().item())


@needs_gpu
def test_a_gradient_of_b_alone_is_captured():
    a = sparse(300, 200, device="cuda")
    operator = SparseOperator(a.to_sparse_csr(), precision="fp32")
    b = dense(200, 32, device="cuda").requires_grad_()
    weights = dense(300, 32, seed=3, device="cuda")
    call = lambda: torch.autograd.grad(operator(b), b, weights)  # noqa: E731
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (gradient,) = call()
    weights.mul_(3)
    graph.replay()
    assert_product(gradient, a.t(), weights)


@needs_gpu
def test_a_capture_without_a_plan_is_refused():
    operator = SparseOperator(sparse(300, 200, device="cuda").to_sparse_csr())
    b = dense(200, 24, device="cuda")
    refused = pytest.raises(RuntimeError, match="run the same product once before the capture")
    with refused, torch.cuda.graph(torch.cuda.CUDAGraph()):
        operator(b)


@needs_gpu
def test_a_plan_is_described():
    operator = SparseOperator(sparse(300, 200, device="cuda").to_sparse_csr(), precision="tf32")
    plan = operator.plan(32)
    assert plan["kernel"].startswith("tessera_spmm") and plan["n"] == 32


@needs_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_plan_for_many_products_may_order_a_and_multiplies_the_same(dtype):
    matrix = tessera.Matrix(WORTH_REORDERING)
    indices = [torch.tensor(array).long() for array in (matrix.row_offsets, matrix.col_indices)]
    values = dense(indices[1].numel())
    csr = torch.sparse_csr_tensor(*indices, values, matrix.shape).to("cuda")
    a = csr.to_dense()
    b = dense(matrix.shape[1], 128, dtype=dtype, device="cuda").requires_grad_()
    weights = dense(matrix.shape[0], 128, seed=2, dtype=dtype, device="cuda")
    for expected, states_it in ((None, False), (10**8, True)):
        operator = SparseOperator(csr, precision="fastest", expected_products=expected)
        for factor in (1, 3):
            operator.set_values(values.to("cuda") * factor)
            (gradient,) = torch.autograd.grad(operator(b), b, weights)
            assert_product(operator(b.detach()), factor * a, b.detach(), "tf32")
            assert_product(gradient, factor * a.t(), weights, "tf32")
        for transposed in (False, True):
            plan = operator.plan(128, dtype, transposed)
            assert ("is not stated" in plan["order_reason"]) == (not states_it), plan


@needs_gpu
def test_many_widths_keep_a_few_plans():
    a = sparse(300, 200, device="cuda")
    operator = SparseOperator(a.to_sparse_csr(), precision="fp32", expected_products=1)
    for _ in range(2):
        for n in range(1, 21):
            b = dense(200, n, device="cuda")
            assert_product(operator(b), a, b)
    kept = [operator._pattern.describe(False, n, torch.float32) for n in range(1, 21)]
    assert sum(plan is not None for plan in kept) <= 8


@needs_gpu
def test_the_host_needs_few_microseconds():
    operator = SparseOperator(sparse(300, 200, device="cuda").to_sparse_csr())
    b = dense(200, 32, device="cuda")
    with torch.no_grad():
        operator @ b
        torch.cuda.synchronize()
        times = []
        for _ in range(20):
            start = time.perf_counter()
            for _ in range(100):
                operator @ b
            times.append((time.perf_counter() - start) / 100 * 1e6)
            torch.cuda.synchronize()
    assert min(times) < 15, f"{min(times)} us"


if __name__ == "__main__":
    main(__file__)
