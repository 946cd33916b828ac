"""Texts that come from outside, safe to print and to draw: whoever wrote a file of records or a figure
file chose them."""

import re
from typing import Any

# Control characters, which steer a terminal, and halves of surrogate pairs, which have no UTF-8.
UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def escaped(text: str, kept: str = "") -> str:
    """The text with the bytes of such characters as \\xNN, but for those in `kept`."""
    def bytes_of(found: re.Match[str]) -> str:
        if found[0] in kept:
            return found[0]
        return "".join(f"\\x{byte:02x}" for byte in found[0].encode("utf-8", "surrogatepass"))

    return UNSAFE.sub(bytes_of, text)


def escaped_json(value: Any) -> Any:
    """A JSON value with every text and every key in it escaped."""
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, list):
        return [escaped_json(item) for item in value]
    if isinstance(value, dict):
        return {escaped(key): escaped_json(item) for key, item in value.items()}
    return value
