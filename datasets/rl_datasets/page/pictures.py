"""Pictures within a page: arrays of pixels as PNG in data URIs. Equal pixels give equal bytes."""

import base64
import struct
import zlib
from html import escape

import numpy as np

_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # of PNG, by number of channels: grey, grey and alpha, RGB, RGBA
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def png(pixels: np.ndarray) -> bytes:
    """Returns a PNG file. pixels: uint8 [height, width, channels], of 1 to 4 channels."""
    height, width, channels = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, width * channels)], axis=1)  # each without a filter
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)) + _chunk(b"IEND", b"")


def picture(pixels: np.ndarray, description: str, kind: str = "") -> str:
    """Returns an img element. `description` is what a screen reader says, `kind` its class in a style."""
    data = base64.b64encode(png(pixels)).decode()
    classes = f' class="{kind}"' if kind else ""
    height, width, _ = pixels.shape
    return f'<img{classes} src="data:image/png;base64,{data}" width="{width}" height="{height}" alt="{escape(description)}">'


def heat(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Returns RGBA pixels of a matrix, from clear at `low` to full blue at `high`; what is not finite is grey. values: [rows, columns]."""
    finite = np.isfinite(values)
    share = np.clip((np.where(finite, values, low) - low) / max(high - low, 1e-300), 0, 1)
    pixels = np.empty((*values.shape, 4), np.uint8)
    pixels[..., :3] = (0, 114, 178)
    pixels[..., 3] = np.round(255 * share)
    pixels[~finite] = (128, 128, 128, 160)
    return pixels


def diverging(values: np.ndarray) -> np.ndarray:
    """Returns RGBA pixels of a matrix whose values lie in [-1, 1]: orange below zero, clear at it, blue above. values: [rows, columns]."""
    pixels = heat(np.abs(values), 0.0, 1.0)
    pixels[np.isfinite(values) & (values < 0), :3] = (222, 116, 22)
    return pixels


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
