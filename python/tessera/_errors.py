"""The errors of the library as exceptions. Each has the library's text: the fault, its values and its place."""


class TesseraError(Exception):
    """Any error of the library."""


class InvalidError(TesseraError, ValueError):
    """A mistake that the caller can mend: a shape, a name with the nearest known one, a broken file."""


class UnsupportedError(TesseraError, NotImplementedError):
    """A legitimate request that cannot be done: at all, on this machine, or by this build."""


class OutOfMemoryError(TesseraError, MemoryError):
    """The host or the GPU has too little memory."""


class DeviceError(TesseraError, RuntimeError):
    """CUDA failed. After most of its errors the process cannot use the GPU any more."""


class InternalError(TesseraError, RuntimeError):
    """Anything else that went wrong inside the library."""
