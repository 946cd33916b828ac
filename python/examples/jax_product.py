"""C = A B with arrays of JAX, by DLPack: B is not copied.

JAX's arrays cannot be written, so C is memory of NumPy, or of CuPy on a GPU, which JAX then takes over.

    python3 python/examples/jax_product.py
"""

import sys

import numpy as np

import tessera


def product(a, b):
    """A B as an array of JAX, where b is."""
    import jax

    shape = (a.shape[0], b.shape[1])
    if b.devices().pop().platform == "cpu":
        c = np.empty(shape, np.float32)
        tessera.multiply(a, b, c)
    else:
        import cupy

        c = cupy.empty(shape, cupy.float32)
        b.block_until_ready()  # JAX does not tell its stream
        tessera.multiply(a, b, c, precision="fp32")
        cupy.cuda.Device().synchronize()
    return jax.dlpack.from_dlpack(c)


def main() -> int:
    """0 when C is right or nothing can run here, which is said."""
    try:
        import jax
    except ImportError:
        print("this example needs JAX: pip install jax")
        return 0
    if jax.default_backend() != "cpu":
        try:
            import cupy  # noqa: F401  C is its memory
        except ImportError:
            print("on a GPU this example needs CuPy as well: pip install cupy-cuda13x")
            return 0
        if not tessera.has_gpu():
            print(f"JAX has a GPU, but tessera has none: {tessera.gpu_problem()}")
            return 0
    else:
        print("JAX has no GPU here: the product is made on the CPU")

    a = tessera.Matrix("rmat(scale=12, edge_factor=8)")
    b = jax.random.uniform(jax.random.key(1), (a.shape[1], 64))
    c = product(a, b)
    expected = a.to_dense() @ np.asarray(b)
    error = float(np.abs(np.asarray(c) - expected).max() / np.abs(expected).max())
    print(f"C is a {type(c).__name__} of {c.shape[0]} x {c.shape[1]}, largest error {error:.1e}")
    return int(error > 1e-5)


if __name__ == "__main__":
    sys.exit(main())
