"""Muon in float32, with matrices of one shape orthogonalised together: many small matrices on one thread of a CPU.

``torch.optim.Muon`` rounds to bfloat16 and goes matrix by matrix, which took a third of a training step of the league's models;
this is the same update otherwise, and a test holds it to that. What must not go in: anything that larger models would need.

Source: K. Jordan and others, "Muon: An optimizer for hidden layers in neural networks", 2024; the coefficients are theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

__all__ = ["Muon"]

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5
_SMALLEST_NORM = 1e-7


class Muon:
    """Nesterov momentum, orthogonalised by five Newton-Schulz iterations, with decoupled weight decay.

    ``matrices``: two-dimensional float32 parameters; one without a gradient stays as it is. ``learning_rate`` may be changed
    between steps; a tall matrix's is larger by the root of its height over its width.
    """

    def __init__(self, matrices: Sequence[Any], learning_rate: float, *, momentum: float, weight_decay: float) -> None:
        import torch

        self.learning_rate = learning_rate
        self._momentum, self._weight_decay = momentum, weight_decay
        self._matrices = list(matrices)
        self._averages = [torch.zeros_like(matrix) for matrix in self._matrices]

    def step(self) -> None:
        """One step from the gradients at hand; the gradients are given up."""
        import torch

        with torch.no_grad():
            groups: dict[tuple[int, ...], list[tuple[Any, Any]]] = {}
            for matrix, average in zip(self._matrices, self._averages, strict=True):
                if matrix.grad is not None:
                    average.lerp_(matrix.grad, 1 - self._momentum)
                    groups.setdefault(tuple(matrix.shape), []).append((matrix, matrix.grad.lerp_(average, self._momentum)))
                    matrix.grad = None
            for (height, width), members in groups.items():
                rate = self.learning_rate * sqrt(max(1.0, height / width))
                for (matrix, _), update in zip(members, _orthogonal(torch.stack([update for _, update in members])), strict=True):
                    matrix.mul_(1 - self.learning_rate * self._weight_decay).add_(update, alpha=-rate)


def _orthogonal(stacked: Any) -> Any:
    """The nearest half-orthogonal matrices, about: (n, height, width) to the same shape, singular values within 0.5 to 1.5."""
    import torch

    tall = stacked.shape[-2] > stacked.shape[-1]
    found = stacked.mT if tall else stacked
    found = found / torch.linalg.matrix_norm(found, keepdim=True).clamp(min=_SMALLEST_NORM)
    first, second, third = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        gram = found @ found.mT
        found = torch.baddbmm(found, torch.baddbmm(gram, gram, gram, beta=second, alpha=third), found, beta=first)
    return found.mT if tall else found
