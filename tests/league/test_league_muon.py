"""The league's Muon makes the updates of the library's, but for the library's rounding to bfloat16."""

from __future__ import annotations

import pytest

from affine_dagster.league.muon import Muon

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.models

SHAPES = [(16, 16), (48, 16), (16, 48), (16, 16)]
RATE, MOMENTUM, DECAY = 0.02, 0.95, 0.01


def _matrices() -> list[torch.nn.Parameter]:
    source = torch.Generator().manual_seed(3)
    return [torch.nn.Parameter(torch.randn(shape, generator=source)) for shape in SHAPES]


def _gradients(step: int) -> list[torch.Tensor]:
    source = torch.Generator().manual_seed(100 + step)
    return [torch.randn(shape, generator=source) for shape in SHAPES]


def test_ten_steps_end_where_the_library_s_do() -> None:
    ours, theirs = _matrices(), _matrices()
    muon = Muon(ours, RATE, momentum=MOMENTUM, weight_decay=DECAY)
    library = torch.optim.Muon(theirs, lr=RATE, momentum=MOMENTUM, weight_decay=DECAY, adjust_lr_fn="original")
    for step in range(10):
        for one, other, gradient in zip(ours, theirs, _gradients(step), strict=True):
            one.grad, other.grad = gradient.clone(), gradient.clone()
        muon.step()
        library.step()
    for one, other, first in zip(ours, theirs, _matrices(), strict=True):
        moved = float((other - first).detach().norm())
        assert float((one - other).detach().norm()) < 0.03 * moved, "apart by more than bfloat16 rounds"


def test_an_update_s_singular_values_lie_about_one() -> None:
    matrices = _matrices()
    before = [matrix.detach().clone() for matrix in matrices]
    for matrix, gradient in zip(matrices, _gradients(0), strict=True):
        matrix.grad = gradient
    Muon(matrices, 1.0, momentum=0.0, weight_decay=0.0).step()
    for matrix, first, (height, width) in zip(matrices, before, SHAPES, strict=True):
        values = torch.linalg.svdvals((first - matrix).detach()) / max(1.0, height / width) ** 0.5
        assert 0.3 < float(values.min()) <= float(values.max()) < 1.3


def test_a_matrix_without_a_gradient_stays() -> None:
    matrices = _matrices()
    matrices[0].grad = _gradients(0)[0]
    Muon(matrices, RATE, momentum=MOMENTUM, weight_decay=DECAY).step()
    assert all(torch.equal(matrix, first) for matrix, first in zip(matrices[1:], _matrices()[1:], strict=True))
    assert not torch.equal(matrices[0], _matrices()[0])
    assert matrices[0].grad is None
