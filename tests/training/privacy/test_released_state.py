"""What is released beside trained weights holds nothing of a record, however it was written."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from private_simulator import flat, make_plan, training
from torch import nn

from hushdoc.errors import PrivacyError
from hushdoc_training.privacy import released_state
from hushdoc_training.privacy.released_state import Released, checksums
from hushdoc_training.runs import receipts
from hushdoc_training.runs.private_run import PrivateRun


class Noting(nn.Module):
    """A layer that keeps a mean of the examples it saw, in one of many ways, once told to."""

    def __init__(self, write: Callable[[Noting, torch.Tensor], object]) -> None:
        super().__init__()
        self.write, self.notes = write, False
        self.layer = nn.Linear(6, 1)
        self.code = nn.Parameter(torch.zeros(6), requires_grad=False)
        self.register_buffer("last", torch.zeros(6))
        self.register_buffer("order", torch.arange(6))

    def forward(self, examples: torch.Tensor) -> torch.Tensor:
        if self.notes:
            with torch.no_grad():
                self.write(self, examples.detach().mean(0))
        return self.layer(examples)


WAYS: dict[str, Callable[[Noting, torch.Tensor], object]] = {
    "buffers.*last": lambda model, mean: model.last.copy_(mean),
    # Torch counts a write to `.data` as none, and one through numpy neither.
    "last": lambda model, mean: model.last.data.copy_(mean),
    "code": lambda model, mean: model.code.data.copy_(mean),
    "layer.weight": lambda model, mean: model.layer.weight.data.copy_(mean[None]),
    "order": lambda model, mean: model.order.data.copy_(mean.argsort()),
}


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("from_the_start", [True, False])
def test_a_write_is_refused_whether_torch_counts_it_or_not(name: str, from_the_start: bool) -> None:
    torch.manual_seed(0)
    model = Noting(WAYS[name])
    model.notes = from_the_start

    def train() -> None:
        with training(model, draws=[[1, 4]] * 2) as made:
            made.step()
            model.notes = True
            made.step()

    # A trained weight that is written to in the trial gives the examples away before that.
    with pytest.raises(PrivacyError, match=f"{name}|depends on other examples"):
        train()


def test_what_a_module_adds_to_the_state_dict_is_looked_at() -> None:
    class Counting(nn.Linear):
        largest = 0.0

        def get_extra_state(self) -> dict[str, float]:
            return {"largest": self.largest}

        def set_extra_state(self, state: dict[str, float]) -> None:
            self.largest = state["largest"]

    model = nn.Sequential(Counting(6, 1))
    with training(model, draws=[[1], [4]]) as made:
        made.step()
        model[0].register_forward_hook(
            lambda module, args, output: setattr(module, "largest", float(args[0].max()))
        )
        with pytest.raises(PrivacyError, match=r"0\.extra_state"):
            made.step()


def test_nothing_is_stepped_by_what_was_written() -> None:
    model = Noting(WAYS["code"])
    with training(model, draws=[[1]]) as made:
        model.notes = True
        before = flat(model.layer)
        with pytest.raises(PrivacyError, match="code"):
            made.step()
        assert torch.equal(flat(model.layer), before)


def test_what_is_written_between_steps_is_found_in_the_next_and_at_the_claim() -> None:
    model = Noting(WAYS["last"])
    with training(model, draws=[[1]] * 3, coins=None, noise=None) as made:
        made.step()
        model.last.data[0] = 1.0
        with pytest.raises(PrivacyError, match="last"):
            receipts.claim_of(made, "pages")
        with pytest.raises(PrivacyError, match="last"):
            made.step()
    with pytest.raises(PrivacyError, match="last"):
        receipts.claim_of(made, "pages")


def test_no_state_is_saved_with_it(tmp_path: Path) -> None:
    model = Noting(WAYS["last"])
    plan = make_plan(steps=3)
    run = PrivateRun.open(tmp_path / "run", plan)
    with (
        training(model, draws=[[1]] * 3, plan=plan, charge=run.charge) as made,
        pytest.raises(PrivacyError, match="last"),
    ):
        run.train(made, save_every=0.0, seen=lambda step: model.last.data.fill_(step.loss))
    assert not list((tmp_path / "run").glob("state-*"))


def test_what_is_done_after_the_last_step_is_the_trainers_own() -> None:
    model = Noting(WAYS["last"])
    plan = make_plan(steps=2)
    with training(model, draws=[[1]] * 2, plan=plan, coins=None, noise=None) as made:
        assert len(list(made)) == 2
        model.last.fill_(1.0)
        receipts.claim_of(made, "pages")
    model.half()
    receipts.claim_of(made, "pages")


def test_a_write_in_the_last_step_is_found_there() -> None:
    model = Noting(WAYS["last"])
    with training(model, draws=[[1]], plan=make_plan(steps=1)) as made:
        made.optimizer.register_step_post_hook(lambda *_: model.last.data.fill_(1.0))
        with pytest.raises(PrivacyError, match="last"):
            made.step()


@pytest.mark.parametrize(
    "kind", [torch.bool, torch.uint8, torch.bfloat16, torch.float16, torch.int64, torch.complex64]
)
@pytest.mark.parametrize("size", [1, 3, 8, 1021, 5000])
def test_checksums_see_every_entry_and_its_place(kind: torch.dtype, size: int) -> None:
    torch.manual_seed(0)
    one = torch.randint(0, 2, (size,)).to(kind)
    known = checksums({"one": one})
    assert checksums({"one": one.clone()}) == known
    for place in {0, size // 2, size - 1}:
        other = one.clone()
        other[place] = 1 - other[place].to(torch.complex64).real
        assert checksums({"one": other}) != known
    for moved in (one.roll(1), one.flip(0)):
        assert torch.equal(moved, one) or checksums({"one": moved}) != known


def test_checksums_do_not_depend_on_how_a_tensor_lies_in_memory() -> None:
    image = torch.randn(2, 3, 5, 7)
    beside = torch.randn(12)
    assert checksums({"it": image}) == checksums(
        {"it": image.to(memory_format=torch.channels_last)}
    )
    assert checksums({"it": beside[1:]}) == checksums({"it": beside[1:].clone()})
    assert checksums({"it": torch.empty(0)}) == {"it": 0}


def test_every_frozen_part_has_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(released_state, "LOOKED_AT", 500)
    torch.manual_seed(0)
    model = nn.ModuleList(nn.Linear(8, width) for width in (1, 20, 5, 5, 90))
    model.register_buffer("buffer", torch.zeros(3))
    looked = Released(model, [])
    steps = len(list(model.parameters()))

    def is_seen() -> bool:
        try:
            with looked.unwritten():
                return False
        except PrivacyError:
            return True

    def passes_until(name: str) -> int:
        with torch.no_grad():
            dict(model.named_parameters())[name].data.add_(1.0)
        number = next(number for number in range(1, steps + 2) if is_seen())
        assert looked.changed() == [name]
        looked.begin()
        assert not is_seen()  # the first one, that looks at all
        return number

    taken = [passes_until(name) for name, _ in model.named_parameters()]
    assert max(taken) <= steps
    assert max(taken) > 1
    model.buffer.data.add_(1.0)
    with pytest.raises(PrivacyError, match="buffer"), looked.unwritten():
        pass


def test_a_counted_write_to_any_frozen_part_is_found_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(released_state, "LOOKED_AT", 1)
    model = nn.ModuleList(nn.Linear(8, 5) for _ in range(6))
    looked = Released(model, [])
    for name, value in model.named_parameters():
        with pytest.raises(PrivacyError, match=name), looked.unwritten(), torch.no_grad():
            value.add_(1.0)
        looked.begin()
        with looked.unwritten():
            pass


def test_a_large_frozen_part_costs_little() -> None:
    # A layer of it costs at least two products over the examples, and a look over it one pass.
    model = nn.Sequential(nn.Linear(2048, 2048).requires_grad_(False), nn.Linear(2048, 1))
    looked = Released(model, ["1.weight", "1.bias"])
    examples = torch.randn(512, 2048)

    def seconds(action: Callable[[], object]) -> float:
        def once() -> float:
            start = time.process_time()
            action()
            return time.process_time() - start

        return min(once() for _ in range(7))

    assert seconds(looked.require_kept) < 0.5 * seconds(lambda: model(examples))
