"""C = A B on a GPU with CuPy: no array is copied.

    python3 python/examples/cupy_product.py
"""

import sys

import tessera


def main() -> int:
    """0 when C is right or nothing can run here, which is said."""
    try:
        import cupy
    except ImportError:
        print("this example needs CuPy: pip install cupy-cuda13x")
        return 0
    if not tessera.has_gpu():
        print(f"this example needs a GPU: {tessera.gpu_problem()}")
        return 0

    a = tessera.Matrix("rmat(scale=14, edge_factor=8)")
    b = cupy.random.default_rng(1).random((a.shape[1], 128), dtype=cupy.float32)
    with cupy.cuda.Stream() as stream:
        c = tessera.multiply(a, b, precision="fp32")  # enqueued on CuPy's stream
        stream.synchronize()
    expected = a.to_cupy() @ b
    error = float(cupy.abs(c - expected).max() / cupy.abs(expected).max())
    print(f"C is {c.shape[0]} x {c.shape[1]}, largest error against CuPy's product {error:.1e}")
    return int(error > 1e-5)


if __name__ == "__main__":
    sys.exit(main())
