"""Every rule of the book-keeping on small layers, against one backward pass per record."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils import parametrizations
from transformers.pytorch_utils import Conv1D

from hushdoc_training.models.low_rank import LowRank
from hushdoc_training.privacy.clipping import BookKeeping, OneByOne

EXAMPLES = 4
RECORDS = {
    "one-to-one": torch.arange(EXAMPLES),
    "side-by-side": torch.tensor([0, 0, 1, 2]),
    "mixed": torch.tensor([1, 0, 1, -1]),
    "reversed": torch.arange(EXAMPLES).flip(0),
    "a-record-without-examples": torch.tensor([0, 2, 2, 0]),
}


def images(*shape: int) -> torch.Tensor:
    return torch.randn(EXAMPLES, *shape)


class Called(nn.Module):
    """A function of the input and of parameters of its own."""

    def __init__(self, function: Callable[..., torch.Tensor], **shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.function = function
        for name, shape in shapes.items():
            setattr(self, name, nn.Parameter(torch.randn(shape)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, **dict(self.named_parameters()))


class Recurrent(nn.Module):
    """Calls the same layers again and again."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros_like(x[:, 0])
        for step in x.unbind(1):
            state = self.norm(torch.tanh(self.cell(state + step)))
        return state


class Tied(nn.Module):
    """One table that embeds and classifies, as large as its pairs or larger."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.table, self.inner = nn.Embedding(words, 6, padding_idx=1), nn.Linear(6, 6)

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        twice = self.table(index) + self.table(index.flip(1))
        return F.linear(torch.tanh(self.inner(twice)), self.table.weight)


class WithoutBatch(nn.Module):
    """A bias by relative position whose index has no batch axis and as many places as examples."""

    def __init__(self) -> None:
        super().__init__()
        self.bias, self.linear = (
            nn.Embedding(2 * EXAMPLES, 3),
            nn.Linear(8, 3 * EXAMPLES * EXAMPLES),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        place = torch.arange(EXAMPLES)
        bias = self.bias(place[:, None] - place[None, :] + EXAMPLES).permute(2, 0, 1).unsqueeze(0)
        return F.softmax(self.linear(x).view(-1, 3, EXAMPLES, EXAMPLES) + bias, dim=-1)


def attention(batch_first: bool) -> nn.Module:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.MultiheadAttention(8, 2, batch_first=batch_first)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x if batch_first else x.transpose(0, 1)
            y = self.inner(x, x, x)[0]
            return y if batch_first else y.transpose(0, 1)

    return Attention()


def low_rank(inside: int, outside: int) -> nn.Module:
    made = LowRank(nn.Linear(inside, outside), 2)
    nn.init.normal_(made.up.weight)  # as after a step: at zero nothing reaches the other factor
    return made


def stack(*layers: nn.Module) -> nn.Module:
    # A layer below, so that gradients of inputs are needed too.
    return nn.Sequential(*layers)


CASES: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    "linear": lambda: (stack(nn.Linear(8, 6), nn.Linear(6, 3)), images(8)),
    "linear-without-bias": lambda: (nn.Linear(8, 3, bias=False), images(5, 8)),
    "linear-wide": lambda: (stack(nn.Linear(90, 80), nn.Linear(80, 90)), images(2, 90)),
    "linear-4d": lambda: (stack(nn.Linear(8, 6), nn.GELU(), nn.Linear(6, 3)), images(2, 3, 8)),
    "low-rank": lambda: (
        stack(low_rank(8, 6), nn.GELU(), low_rank(6, 3)),
        images(5, 8),
    ),
    "layer-norm": lambda: (stack(nn.Linear(8, 6), nn.LayerNorm(6)), images(5, 8)),
    "layer-norm-2d": lambda: (stack(nn.Linear(8, 6), nn.LayerNorm((5, 6))), images(5, 8)),
    "layer-norm-no-bias": lambda: (
        stack(nn.Linear(8, 6), nn.LayerNorm(6, bias=False)),
        images(5, 8),
    ),
    "rms-norm": lambda: (stack(nn.Linear(8, 6), nn.RMSNorm(6)), images(5, 8)),
    "group-norm": lambda: (stack(nn.Conv2d(3, 6, 1), nn.GroupNorm(3, 6)), images(3, 5, 5)),
    "instance-norm": lambda: (
        stack(nn.Conv2d(3, 6, 1), nn.InstanceNorm2d(6, affine=True)),
        images(3, 5, 5),
    ),
    "prelu": lambda: (stack(nn.Conv2d(3, 6, 1), nn.PReLU(6)), images(3, 5, 5)),
    "conv1d": lambda: (stack(nn.Conv1d(3, 4, 3), nn.Conv1d(4, 2, 2, stride=2)), images(3, 9)),
    "conv2d": lambda: (
        stack(nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 6, 3, stride=2, dilation=2)),
        images(3, 9, 9),
    ),
    "conv2d-larger-than-its-images": lambda: (
        stack(nn.Conv2d(3, 64, 3, padding=1), nn.Conv2d(64, 64, 3, stride=2)),
        images(3, 5, 5),
    ),
    "conv2d-same": lambda: (nn.Conv2d(3, 4, (3, 4), padding="same"), images(3, 6, 6)),
    "conv2d-valid": lambda: (nn.Conv2d(3, 4, 3, padding="valid"), images(3, 6, 6)),
    "conv2d-groups": lambda: (
        stack(nn.Conv2d(4, 8, 3, groups=4), nn.Conv2d(8, 4, 3, groups=2)),
        images(4, 7, 7),
    ),
    "conv2d-depthwise": lambda: (
        nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False),
        images(4, 5, 5),
    ),
    "conv2d-channels-last": lambda: (
        stack(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.Conv2d(4, 4, 1)),
        images(3, 6, 6).to(memory_format=torch.channels_last),
    ),
    "conv3d": lambda: (nn.Conv3d(2, 3, 2), images(2, 3, 4, 4)),
    "conv-transpose": lambda: (
        stack(
            nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1),
            nn.ConvTranspose2d(4, 6, 2, groups=2, padding=1),
        ),
        images(3, 4, 4),
    ),
    "conv-transpose-1d": lambda: (nn.ConvTranspose1d(3, 4, 3, dilation=2), images(3, 5)),
    "embedding": lambda: (nn.Embedding(9, 5), torch.randint(0, 9, (EXAMPLES, 6))),
    "embedding-large": lambda: (nn.Embedding(500, 5), torch.randint(0, 9, (EXAMPLES, 6))),
    "embedding-padding": lambda: (
        nn.Embedding(500, 5, padding_idx=-497),
        torch.randint(0, 6, (EXAMPLES, 6)),
    ),
    "tied": lambda: (Tied(40), torch.randint(0, 9, (EXAMPLES, 6))),
    "tied-large": lambda: (Tied(900), torch.randint(0, 9, (EXAMPLES, 6))),
    "called-often": lambda: (Recurrent(6), images(5, 6)),
    "called-often-wide": lambda: (Recurrent(60), images(3, 60)),
    "index-without-batch": lambda: (WithoutBatch(), images(8)),
    "attention": lambda: (attention(batch_first=True), images(5, 8)),
    "attention-time-first": lambda: (attention(batch_first=False), images(5, 8)),
    "encoder-layer": lambda: (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), 2),
        images(5, 8),
    ),
    "weight-norm": lambda: (parametrizations.weight_norm(nn.Linear(8, 3)), images(5, 8)),
    "folded": lambda: (
        Called(lambda x, w: F.linear(x.flatten(0, 1), w).view(EXAMPLES, 5, 3), w=(3, 8)),
        images(5, 8),
    ),
    "conv1d-of-gpt2": lambda: (stack(Conv1D(6, 8), Conv1D(3, 6)), images(5, 8)),
    "matmul": lambda: (Called(lambda x, w: x @ w, w=(8, 3)), images(5, 8)),
    "matmul-left": lambda: (Called(lambda x, w: w @ x, w=(3, 5)), images(5, 8)),
    "bmm-of-expanded": lambda: (
        Called(lambda x, q: q.expand(EXAMPLES, -1, -1) @ x.transpose(1, 2), q=(1, 2, 8)),
        images(5, 8),
    ),
    "class-token": lambda: (
        Called(lambda x, t: torch.cat([t.expand(EXAMPLES, -1, -1), x], 1).softmax(1), t=(1, 1, 8)),
        images(5, 8),
    ),
    "added-and-scaled": lambda: (
        Called(lambda x, p, s: (x + p) * s - p.mean(), p=(5, 8), s=(8,)),
        images(5, 8),
    ),
    "in-place": lambda: (Called(lambda x, p: torch.tanh(x).mul_(p).add_(p), p=(8,)), images(5, 8)),
    "scalar": lambda: (Called(lambda x, p: torch.where(x > 0, x * p, p), p=()), images(5, 8)),
    "derived": lambda: (
        Called(lambda x, p, s: x * F.softmax(p, 0) + (p * s).sum(), p=(8,), s=(8,)),
        images(5, 8),
    ),
    "table-by-index": lambda: (
        Called(lambda x, t: torch.tanh(t[(x > 0).long()]), t=(2, 3)),
        images(5, 8),
    ),
    "attention-mask": lambda: (
        Called(lambda x, b: F.scaled_dot_product_attention(x, x, x, attn_mask=b), b=(5, 5)),
        images(2, 5, 8),
    ),
}


@pytest.mark.parametrize("grouping", RECORDS)
@pytest.mark.parametrize("case", CASES)
def test_equals_one_backward_pass_per_record(case: str, grouping: str) -> None:
    torch.manual_seed(0)
    model, x = CASES[case]()
    model.eval()  # no dropout
    weights, target = torch.rand(EXAMPLES) + 0.5, None
    clippers = OneByOne(model, clipping_norm=0.5), BookKeeping(model, clipping_norm=0.5)

    def losses() -> torch.Tensor:
        y = model(x)
        nonlocal target
        target = torch.randn(y.shape) if target is None else target
        return (y * target).flatten(1).sum(1).square()

    truth, found = (c.add(losses, RECORDS[grouping], weights=weights) for c in clippers)
    # A quarter of the 2^-12 that the sensitivity allows for a norm's float32 error: products of
    # T positions cancel differently on each processor.
    torch.testing.assert_close(found.norms, truth.norms, rtol=2.0**-14, atol=1e-6)
    scale = max(float(total.norm()) for total in clippers[0].sums.values())
    for name, total in clippers[0].sums.items():
        torch.testing.assert_close(
            clippers[1].sums[name], total, rtol=2e-5, atol=2e-6 * scale, msg=lambda m, n=name: n + m
        )


def test_known_answer_of_a_linear_layer() -> None:
    model = nn.Linear(2, 1)
    nn.init.constant_(model.weight, 1.0)
    nn.init.constant_(model.bias, 0.0)
    x = torch.tensor([[3.0, 4.0], [0.0, 0.5]])
    clipper = BookKeeping(model, clipping_norm=2.0)
    # d (w x + b) = (x, 1): norms sqrt(26) and sqrt(1.25); the first is scaled by 2 / sqrt(26).
    found = clipper.add(lambda: model(x).squeeze(1), torch.arange(2))
    torch.testing.assert_close(found.norms, torch.tensor([26.0, 1.25]).sqrt())
    scale = 2 / 26**0.5
    expected = torch.tensor([[3 * scale, 4 * scale + 0.5]])
    torch.testing.assert_close(clipper.sums["weight"], expected, rtol=2e-6, atol=0)
    torch.testing.assert_close(clipper.sums["bias"], torch.tensor([scale + 1]), rtol=2e-6, atol=0)
