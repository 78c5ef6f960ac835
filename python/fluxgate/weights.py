"""Networks that were trained: files of weights, which become components, and recordings of decisions.

A file of weights is in the format safetensors; `fluxgate policy new NAME --template mlp-kernel --weights FILE` makes a
policy of it. Nothing here needs torch: a module of torch is recognised when it is handed over.
"""

from __future__ import annotations

import json
import os
import struct
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from .errors import OptionError

_Array = npt.NDArray[Any]
#: Weights of shape (outputs, inputs) and a bias for each output.
Layer = Tuple[_Array, _Array]

_TYPES = {"F32": "<f4", "U8": "u1", "I64": "<i8"}


def write_safetensors(
    path: Union[str, "os.PathLike[str]"], tensors: Mapping[str, _Array], metadata: Mapping[str, str]
) -> None:
    """Write arrays of float32, uint8 or int64 and texts in the format safetensors."""
    names = {np.dtype(code): name for name, code in _TYPES.items()}
    header: Dict[str, Any] = {"__metadata__": dict(metadata)}
    parts: List[bytes] = []
    offset = 0
    for name, tensor in tensors.items():
        array = np.ascontiguousarray(tensor)
        if array.dtype not in names:
            accepted = "float32, uint8 and int64"
            raise OptionError(f"tensor {name}: found numbers of type {array.dtype}, accepted are {accepted}")
        header[name] = {
            "dtype": names[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        parts.append(array.tobytes())
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def read_safetensors(path: Union[str, "os.PathLike[str]"]) -> Tuple[Dict[str, _Array], Dict[str, str]]:
    """The arrays and the texts of a file that :func:`write_safetensors` wrote."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, info in header.items():
        begin, end = info["data_offsets"]
        if info["dtype"] not in _TYPES:
            raise OptionError(f"tensor {name}: found numbers of type {info['dtype']}, accepted are {', '.join(_TYPES)}")
        tensors[name] = np.frombuffer(data[begin:end], _TYPES[info["dtype"]]).reshape(info["shape"])
    return tensors, metadata


def layers_of(network: Any) -> List[Layer]:
    """The dense layers of a module of torch (Linear and ReLU in turn), or of a sequence of pairs of weights and biases."""
    if hasattr(network, "named_modules"):
        return _of_torch(network)
    layers = []
    for at, pair in enumerate(network):
        weight, bias = (np.asarray(part) for part in pair)
        if weight.ndim != 2 or bias.shape != weight.shape[:1]:
            found = f"shapes {weight.shape} and {bias.shape}"
            raise OptionError(f"layer {at}: found {found}, accepted are (outputs, inputs) and (outputs,)")
        layers.append((weight.astype("<f4"), bias.astype("<f4")))
    return layers


def _of_torch(module: Any) -> List[Layer]:
    layers: List[Layer] = []
    between: List[str] = []
    for _, part in module.named_modules():
        if next(iter(part.children()), None) is not None:
            continue
        kind = type(part).__name__
        if kind == "Linear":
            if layers and between != ["ReLU"]:
                found = ", ".join(between) or "nothing"
                raise OptionError(f"between layers {len(layers) - 1} and {len(layers)}: found {found}, accepted is ReLU")
            weight = part.weight.detach().cpu().numpy()
            bias = np.zeros(len(weight)) if part.bias is None else part.bias.detach().cpu().numpy()
            layers.append((weight.astype("<f4"), bias.astype("<f4")))
            between = []
        elif kind in ("ReLU",):
            between.append(kind)
        elif kind not in ("Identity", "Dropout", "Flatten"):
            raise OptionError(f"a module {kind}: accepted are Linear and ReLU in turn")
    if between:
        raise OptionError(f"after the last layer: found {', '.join(between)}, accepted is nothing")
    return layers


def export(
    network: Any,
    env: Any,
    path: Union[str, "os.PathLike[str]"],
    *,
    kind: Optional[str] = None,
    trained_on: Sequence[str] = (),
) -> None:
    """Write a network that was trained in `env` (a ``Pick`` environment, or its options) as a file of weights.

    `network` is a module of torch of Linear and ReLU, or a sequence of pairs of weights (outputs, inputs) and biases. `kind`
    is ``"kernel"`` (each row by itself) or ``"flat"`` (all rows at once); without it the inputs tell. `trained_on` are
    SHA-256 of logs, each with ``:FIRST-LAST``, the numbers of the first and the last of its jobs, or without for all of
    them; by default those of the environment's log if it came from a file. A benchmark does not rank a policy on these jobs.
    """
    options: Mapping[str, Any] = env if isinstance(env, Mapping) else env.unwrapped.options
    layers = layers_of(network)
    if not layers:
        raise OptionError("a network: found no layer, accepted is at least 1")
    hashes = list(trained_on)
    unwrapped: Any = getattr(env, "unwrapped", None)
    log = getattr(unwrapped, "log", None)
    if not hashes and log is not None and log.sha256 is not None:
        numbers = log.frame()["job"]
        hashes = [f"{log.sha256}:{numbers.min()}-{numbers.max()}"]
    inputs, outputs = layers[0][0].shape[1], layers[-1][0].shape[0]
    if kind is None:
        kind = "kernel" if outputs == 1 and inputs < options["window"] * 4 else "flat"
    scales = options["scales"]
    if "cores=" not in scales and unwrapped is not None:
        # The network saw shares of this machine.
        scales = ",".join(part for part in (scales, f"cores={unwrapped.machine._machine.core_count}") if part)
    said = {
        "format": "1",
        "features": options["features"],
        "scales": scales,
        "window": str(options["window"]),
        "rows": options["rows"],
        "network": kind,
        "activation": "relu" if len(layers) > 1 else "none",
        "mode": options["mode"],
        "backfill": options["backfill"],
        "ties": "first",
        "environment": "fluxgate/Pick-v0",
        "trained-on": ",".join(hashes),
    }
    tensors = {}
    for at, (weight, bias) in enumerate(layers):
        tensors[f"layers.{at}.weight"], tensors[f"layers.{at}.bias"] = weight, bias
    write_safetensors(path, tensors, {f"fluxgate.{key}": value for key, value in said.items()})


def logits(layers: Sequence[Layer], rows: _Array) -> npt.NDArray[np.float32]:
    """What a kernel gives for each row, in float32; sums may be in another order than in a component."""
    values = np.asarray(rows, np.float32)
    for at, (weight, bias) in enumerate(layers):
        values = values @ np.asarray(weight, np.float32).T + np.asarray(bias, np.float32)
        if at + 1 < len(layers):
            values = np.maximum(values, 0)
    return np.asarray(values[..., 0], np.float32)


class Recorder:
    """Collects observations, masks and actions, for ``fluxgate policy verify --recorded``."""

    def __init__(self) -> None:
        self._observations: List[_Array] = []
        self._masks: List[_Array] = []
        self._actions: List[int] = []

    def add(self, observation: _Array, mask: _Array, action: int) -> None:
        """One decision."""
        self._observations.append(np.array(observation, np.float32))
        self._masks.append(np.array(mask[: len(observation)], np.uint8))
        self._actions.append(int(action))

    def __len__(self) -> int:
        return len(self._actions)

    def write(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Write all decisions."""
        if not self._actions:
            raise OptionError("a recording: found no decision, accepted is at least 1")
        tensors = {
            "observations": np.stack(self._observations),
            "masks": np.stack(self._masks),
            "actions": np.array(self._actions, np.int64),
        }
        write_safetensors(path, tensors, {})
