"""Seeds dropout and other in-step randomness from the operating system.

One record more or less shifts what is drawn for all others of its batch. The sum is bounded all the
same as long as every row's draw is as likely as every other's and nobody knows it; under a seed
that somebody knows, one record would move everybody's gradient. So the generators that models and
losses draw from by default are seeded from the operating system for every step, in every process
for itself, and go on afterwards from where the program had left them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from hushdoc.system import forking

ASSUMED = (
    "what the losses draw at random they draw for each row by itself, from the default generators "
    "of torch, numpy and Python, which every step seeds from the operating system"
)

DEFAULTS = forking.Lock()
"""Held by whoever sets the default generators, which are the process's: another thread would put
back what the program had seeded while this one computes."""

_WORDS = 624
_STATE = slice(24, 24 + 8 * _WORDS)  # after seed, count and flags; before a normal that was kept
_STATE_BYTES = 5056


@contextmanager
def secret(parameters: Iterable[torch.Tensor]) -> Iterator[None]:
    """Lets models and losses draw from secret seeds inside the block.

    Activation checkpointing draws the same again when it computes a layer a second time, since both
    times are inside.
    """
    with _restored(parameters) as generators:
        for generator in generators:
            generator.manual_seed(int.from_bytes(os.urandom(8)))
        _fill(torch.default_generator)
        random.seed(os.urandom(_WORDS * 4))
        np.random.set_state(("MT19937", _words(), _WORDS, 0, 0.0))  # noqa: NPY002
        yield


@contextmanager
def repeated(parameters: Iterable[torch.Tensor]) -> Iterator[None]:
    """Lets models and losses draw the same inside every such block, for comparing them."""
    with _restored(parameters) as generators:
        for generator in generators:
            generator.manual_seed(0)
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        yield


@contextmanager
def modes_restored(model: nn.Module) -> Iterator[None]:
    """Puts every module back into its own mode, training or evaluation, after the block."""
    modes = {module: module.training for module in model.modules()}
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


@contextmanager
def in_evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Puts a model into evaluation mode inside the block."""
    with modes_restored(model):
        model.eval()
        yield


@contextmanager
def _restored(parameters: Iterable[torch.Tensor]) -> Iterator[list[torch.Generator]]:
    """Yields torch's default generators; after the block all default ones are as before."""
    generators = [torch.default_generator, *_on_devices(parameters)]
    with ExitStack() as stack:
        stack.enter_context(DEFAULTS)
        for generator in generators:
            stack.callback(generator.set_state, generator.get_state())
        stack.callback(random.setstate, random.getstate())
        stack.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002
        yield generators


def _on_devices(parameters: Iterable[torch.Tensor]) -> list[torch.Generator]:
    devices = {value.device for value in parameters} - {torch.device("cpu"), torch.device("meta")}
    return [_generator_of(device) for device in sorted(devices, key=str)]


def _generator_of(device: torch.device) -> torch.Generator:
    module: Any = torch.get_device_module(device)
    if device.type == "mps":
        found: torch.Generator = module._get_default_mps_generator()
        return found
    index = module.current_device() if device.index is None else device.index
    held: torch.Generator = module.default_generators[index]
    return held


def _fill(generator: torch.Generator) -> None:
    """Gives the CPU's Mersenne twister a whole secret state; of a seed it takes 32 bits alone."""
    state = generator.get_state()
    if len(state) == _STATE_BYTES:
        state.numpy()[_STATE].view(np.uint64)[:] = _words()
        generator.set_state(state)


def _words() -> Any:
    return np.frombuffer(os.urandom(4 * _WORDS), dtype=np.uint32)
