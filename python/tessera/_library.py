"""libtessera.so and its functions (kernels/abi/tessera.h), by ctypes: nothing here depends on the
version of Python. $TESSERA_LIBRARY names another library than that of the wheel."""

import ctypes
import json
import os
import threading
from ctypes import POINTER, c_char_p, c_double, c_float, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any

from . import _errors as errors

ABI_VERSION = 2
STOPPED = 5
ERRORS = {1: errors.InvalidError, 2: errors.UnsupportedError, 3: errors.OutOfMemoryError,
          4: errors.DeviceError, 6: errors.InternalError}  # fmt: skip
FP32, FP16, BF16, FP64 = range(4)  # tessera_type


class Csr(ctypes.Structure):
    """tessera_csr."""

    _fields_ = [("rows", c_int64), ("cols", c_int64), ("nnz", c_int64), ("row_offsets", c_void_p),
                ("col_indices", c_void_p), ("values", c_void_p)]  # fmt: skip


class SpmmOptions(ctypes.Structure):
    """tessera_spmm_options."""

    _fields_ = [("size", c_int64), ("num_kernels", c_int64), ("kernels", POINTER(c_char_p)),
                ("formats", POINTER(c_char_p)), ("precision", c_int32), ("type", c_int32),
                ("row_order", c_void_p), ("sets_values", c_int32), ("strided", c_int32),
                ("expected_products", c_int64)]  # fmt: skip


class SddmmOptions(ctypes.Structure):
    """tessera_sddmm_options."""

    _fields_ = [("size", c_int64), ("num_kernels", c_int64), ("kernels", POINTER(c_char_p)),
                ("precision", c_int32), ("type", c_int32), ("narrow_result", c_int32),
                ("scales_by_a", c_int32)]  # fmt: skip


class AdviceOptions(ctypes.Structure):
    """tessera_advice_options."""

    _fields_ = [("size", c_int64), ("device", c_char_p), ("num_orders", c_int64),
                ("orders", POINTER(c_char_p)), ("num_kernels", c_int64),
                ("kernels", POINTER(c_char_p)), ("products", c_int64), ("max_seconds", c_double),
                ("cold", c_int32), ("quick", c_int32)]  # fmt: skip


CSR = POINTER(Csr)
TEXT = POINTER(c_void_p)  # where a function puts a text that tessera_free() frees
SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "tessera_abi_version": (c_int32, []),
    "tessera_version": (c_char_p, []),
    "tessera_last_error": (c_char_p, []),
    "tessera_free": (None, [c_void_p]),
    "tessera_set_threads": (c_int32, [c_int32]),
    "tessera_set_stop": (None, [c_void_p]),
    "tessera_has_gpu": (c_int32, []),
    "tessera_matrix_load": (c_int32, [c_char_p, POINTER(c_void_p)]),
    "tessera_matrix_csr": (c_int32, [c_void_p, CSR]),
    "tessera_matrix_destroy": (None, [c_void_p]),
    "tessera_matrix_write": (c_int32, [CSR, c_char_p]),
    "tessera_spmm_options_init": (None, [POINTER(SpmmOptions)]),
    "tessera_spmm_plan_create": (c_int32, [CSR, c_int64, POINTER(SpmmOptions), POINTER(c_void_p)]),
    "tessera_spmm_plan_run": (c_int32, [c_void_p, c_void_p, c_int64, c_void_p, c_int64, c_float,
                                        c_float, c_void_p]),
    "tessera_spmm_plan_run_batch": (c_int32, [c_void_p, c_int64, *[c_void_p, c_int64, c_int64] * 2, c_float,
                                              c_float, c_void_p]),
    "tessera_spmm_plan_set_values": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "tessera_spmm_plan_workspace_bytes": (c_int64, [c_void_p]),
    "tessera_spmm_plan_describe": (c_int32, [c_void_p, TEXT]),
    "tessera_spmm_plan_destroy": (None, [c_void_p]),
    "tessera_sddmm_options_init": (None, [POINTER(SddmmOptions)]),
    "tessera_sddmm_plan_create": (c_int32, [CSR, c_int64, POINTER(SddmmOptions), POINTER(c_void_p)]),
    "tessera_sddmm_plan_run": (c_int32, [c_void_p] * 5),
    "tessera_sddmm_plan_set_values": (c_int32, [c_void_p] * 3),
    "tessera_sddmm_plan_describe": (c_int32, [c_void_p, TEXT]),
    "tessera_sddmm_plan_destroy": (None, [c_void_p]),
    "tessera_sddmm_cpu": (c_int32, [CSR, c_int64, c_int32, c_void_p, c_void_p, c_int64, c_void_p,
                                    c_int64, c_void_p, c_int32, c_int32]),
    "tessera_spmm_cpu": (c_int32, [CSR, c_int64, c_int32, c_void_p, c_void_p, c_int64, c_void_p,
                                   c_int64, c_double, c_double]),
    "tessera_reorder": (c_int32, [CSR, c_char_p, c_void_p, c_void_p, TEXT]),
    "tessera_pack": (c_int32, [CSR, c_char_p, TEXT]),
    "tessera_emulate": (c_int32, [CSR, c_int64, c_char_p, c_char_p, c_char_p, c_void_p, c_int64,
                                  c_void_p, c_int64]),
    "tessera_errors": (c_int32, [CSR, c_int64, c_char_p, c_char_p, c_char_p, c_void_p, c_int64,
                                 c_void_p, c_int64, TEXT]),
    "tessera_simulate": (c_int32, [CSR, c_int64, c_char_p, c_char_p, c_char_p, c_int32, TEXT]),
    "tessera_timeline": (c_int32, [CSR, c_int64, c_char_p, c_char_p, c_char_p, c_int32, c_int64,
                                   TEXT]),
    "tessera_advice_options_init": (None, [POINTER(AdviceOptions)]),
    "tessera_advise": (c_int32, [CSR, c_int64, POINTER(AdviceOptions), TEXT]),
}  # fmt: skip


def _path() -> Path:
    """$TESSERA_LIBRARY, the library of the wheel, or in a checkout that of build/."""
    chosen = os.environ.get("TESSERA_LIBRARY")
    if chosen:
        return Path(chosen)
    wheel = Path(__file__).parent / "lib" / "libtessera.so.1"
    built = Path(__file__).parents[2] / "build" / "libtessera.so.1"
    return built if built.exists() and not wheel.exists() else wheel


def _load() -> ctypes.CDLL:
    path = _path()
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(
            f"tessera's library cannot be loaded: {error}. `pip install .` in a checkout builds it; "
            "$TESSERA_LIBRARY names the libtessera.so.1 of a build folder") from error
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    found = library.tessera_abi_version()
    if found < ABI_VERSION:
        raise ImportError(f"{path} has version {found} of the interface; this package needs "
                          f"{ABI_VERSION}")  # fmt: skip
    return library


library = _load()


def check(status: int) -> None:
    """Raises the exception of a status that is not 0, with the text of this thread's last error."""
    if status == STOPPED:
        raise KeyboardInterrupt
    if status:
        text = library.tessera_last_error().decode("utf-8", "replace")
        raise ERRORS.get(status, errors.InternalError)(text)


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns at once."""
    check(getattr(library, name)(*arguments))


def long_call(name: str, *arguments: Any) -> None:
    """Calls a function that may take long, so that Ctrl-C ends it: the main thread waits for another
    one, and Ctrl-C sets the flag that the function looks at (tessera_set_stop)."""
    if threading.current_thread() is not threading.main_thread():
        call(name, *arguments)
        return
    flag = c_int32(0)
    outcome: list[BaseException | None] = []
    ended = threading.Event()  # a join() that Ctrl-C interrupts takes the thread for ended (Python 3.11)

    def work() -> None:
        library.tessera_set_stop(ctypes.byref(flag))
        try:
            call(name, *arguments)
            outcome.append(None)
        except BaseException as error:  # it is raised again by the thread that waits
            outcome.append(error)
        finally:
            library.tessera_set_stop(None)
            ended.set()

    threading.Thread(target=work, name=name, daemon=True).start()
    try:
        ended.wait()
    except KeyboardInterrupt:
        flag.value = 1
        ended.wait()  # a second Ctrl-C leaves the thread to itself
        raise
    if outcome[0] is not None:
        raise outcome[0]


def long_call_json(name: str, *arguments: Any) -> Any:
    """The JSON that the last argument of a function returns."""
    text = c_void_p()
    long_call(name, *arguments, ctypes.byref(text))
    try:
        return json.loads(ctypes.string_at(text.value or 0))
    finally:
        library.tessera_free(text)


def encoded(text: str | None) -> bytes | None:
    """A text as the library takes it."""
    return None if text is None else str(text).encode("utf-8")


def texts(items: list[str]) -> Any:
    """An array of texts."""
    return (c_char_p * max(1, len(items)))(*[item.encode("utf-8") for item in items])


def variant(name: str, params: dict[str, Any]) -> str:
    """A variant with parameters as one text.

    >>> variant("rcm", {"apply": "rows"})
    'rcm(apply=rows)'
    >>> variant("acc_spmm", {})
    'acc_spmm'
    """
    def value(given: Any) -> str:
        return str(given).lower() if isinstance(given, bool) else str(given)

    inside = ", ".join(f"{key}={value(given)}" for key, given in params.items())
    return f"{name}({inside})" if inside else name
