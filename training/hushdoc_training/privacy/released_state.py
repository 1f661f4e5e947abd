"""What leaves with the weights: nothing but a private step may write to it.

A model's parameters and buffers are released, and whatever else its modules put into a state dict.
What a forward pass writes there of the examples it saw is neither clipped nor noised. So their
content is compared by checksum:

    trained parameters    before and after the passes of every step
    buffers               with the start, after the passes of every step
    frozen parameters     the same, all of them in the first step and a part in each one after, in
                          turn, for a large frozen model would take longer to look over than a
                          small step takes
    all but the trained   before a state is saved, after the last step, and for a claim

Buffers and frozen parameters are also held to torch's own count of writes in every step; that sees
most writes at once, but none through `.data` or numpy.

A checksum is 64 bits in which an entry's value and place matter. It finds accidents, by whatever
way they write; code that means to deceive could choose entries that cancel. What is written and
put back inside a step is not seen, and not released.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn

from hushdoc.errors import PrivacyError

_WIDTH = 1021
"""A prime, so that blocks which trade places rarely get the same weights."""

LOOKED_AT = 32 << 20
"""Bytes of frozen parameters that a step looks at after the first; a larger one is taken alone."""


class Released:
    """Parameters and buffers of a model that is trained, as they stood when training began."""

    def __init__(self, model: nn.Module, trained: Iterable[str]) -> None:
        """Notes what is there."""
        self._model, self._trained = model, frozenset(trained)
        self._ended: list[str] | None = None
        self.begin()

    def begin(self, trained: Iterable[str] | None = None) -> None:
        """Takes what stands in the model now as the start: after a state was restored, say."""
        if trained is not None:
            self._trained = frozenset(trained)
        self._start = checksums(self._kept())
        self._turn = 0

    @contextmanager
    def unwritten(self) -> Iterator[None]:
        """Raises PrivacyError if what is computed in the block writes to the model."""
        writes, trained = _writes(self._kept()), checksums(self._moved())
        yield
        now = _writes(self._kept())
        written = {name for name in now if writes.get(name) != now[name]}
        found = checksums(self._moved())
        written |= {name for name, value in found.items() if trained.get(name) != value}
        _refuse([*written, *self._differing(self._due())])

    def require_kept(self) -> None:
        """Raises PrivacyError if anything but a trained parameter is not as it was at the start."""
        _refuse(self.changed())

    def end(self) -> None:
        """Looks for the last time: what is done to the model afterwards is the trainer's own."""
        self._ended = self.changed()  # the second time these are the first's

    def changed(self) -> list[str]:
        """Returns the names of buffers and frozen parameters that are not as at the start."""
        if self._ended is not None:
            return self._ended
        return self._differing(self._kept())

    def _differing(self, tensors: Mapping[str, torch.Tensor]) -> list[str]:
        found = checksums(tensors)
        other = self._start.keys() ^ self._kept().keys()
        return sorted({name for name in found if self._start.get(name) != found[name]} | other)

    def _due(self) -> dict[str, torch.Tensor]:
        # What this step looks at: of frozen parameters the next ones, up to a size.
        kept, frozen = self._kept(), list(self._frozen())
        if not self._turn:
            self._turn = len(frozen)  # the first step looks at all
            return kept
        due, size = {name: kept[name] for name in kept if name not in frozen}, 0
        for _ in frozen:
            name = frozen[self._turn % len(frozen)]
            size += kept[name].numel() * kept[name].element_size()
            if size > LOOKED_AT and due.keys() & frozen:
                break
            due[name] = kept[name]
            self._turn += 1
        return due

    def _frozen(self) -> dict[str, torch.Tensor]:
        parameters = self._model.named_parameters()
        return {name: value for name, value in parameters if name not in self._trained}

    def _kept(self) -> dict[str, torch.Tensor]:
        return {**self._frozen(), **dict(self._model.named_buffers()), **_extra(self._model)}

    def _moved(self) -> dict[str, torch.Tensor]:
        parameters = self._model.named_parameters()
        return {name: value for name, value in parameters if name in self._trained}


def checksums(tensors: Mapping[str, torch.Tensor]) -> dict[str, int]:
    """Returns a checksum of each tensor's content; of a sharded one, of this process's shard."""
    by_device: dict[torch.device, dict[str, torch.Tensor]] = {}
    weights: dict[torch.device, torch.Tensor] = {}
    with torch.no_grad():
        for name, tensor in tensors.items():
            content = _bytes(tensor)
            if content.device not in weights:
                weights[content.device] = _weights().to(content.device)
            total = _checksum(content, weights[content.device])
            by_device.setdefault(content.device, {})[name] = total
    found: dict[str, int] = {}
    for sums in by_device.values():  # a device is waited for once, not for every tensor
        found.update(zip(sums, torch.stack(list(sums.values())).tolist(), strict=True))
    return found


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    local = getattr(tensor, "_local_tensor", tensor)
    content: torch.Tensor = local.detach().contiguous().reshape(-1).view(torch.uint8)
    return content.clone() if content.storage_offset() % 8 else content


def _checksum(content: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    # Overflow wraps, so this is arithmetic modulo 2**64.
    whole = content.numel() // 8 * 8
    words, rest = content[:whole].view(torch.int64), content[whole:]
    tall = words.numel() // _WIDTH * _WIDTH
    total = (words[tall:] * weights[: words.numel() - tall]).sum()
    total += (rest * weights[-8:][: rest.numel()]).sum()
    if tall:
        total += (words[:tall].view(-1, _WIDTH).sum(0) * weights).sum()
    return total


def _weights() -> torch.Tensor:
    # Odd numbers, so that no word's change is multiplied away.
    generator = torch.Generator().manual_seed(0)
    return torch.randint(-(2**62), 2**62, (_WIDTH,), generator=generator) * 2 + 1


def _extra(model: nn.Module) -> dict[str, torch.Tensor]:
    # What modules put into a state dict besides tensors that they registered.
    return {
        f"{name}.extra_state": torch.frombuffer(
            bytearray(pickle.dumps(module.get_extra_state())), dtype=torch.uint8
        )
        for name, module in model.named_modules()
        if type(module).get_extra_state is not nn.Module.get_extra_state
    }


def _writes(tensors: Mapping[str, torch.Tensor]) -> dict[str, int]:
    return {name: getattr(one, "_local_tensor", one)._version for name, one in tensors.items()}


def _refuse(written: Iterable[str]) -> None:
    names = sorted(set(written))
    if names:
        raise PrivacyError(
            f"{len(names)} buffers or parameters of the model were written to "
            f"({', '.join(names[:3])}) other than by a private step. They are released with the "
            "weights, without noise: a forward pass that notes what it saw gives it away. Put the "
            "modules that do so into eval mode, or keep what they note outside the model."
        )
