"""OKS and OMKS, literally (sec. 3.2): OASIS in the feature space of a kernel, and one operator per kernel.

S(x, y) = kappa(x, y) + sum_i tau_i kappa(x, x_i) [kappa(x_i_plus, y) - kappa(x_i_minus, y)], evaluated term by term.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .common import Array
from .half_quadratic import half_quadratic
from .hedge import hedge_step
from .losses import hinge, plausibility

Kernel = Callable[[Array, Array], float]
Term = tuple[float, Array, Array, Array]  # (tau, x, x_plus, x_minus)


def linear(x: Array, y: Array) -> float:
    """<x, y>."""
    return float(x @ y)


def rbf(gamma: float) -> Kernel:
    """exp(-gamma ||x - y||^2)."""
    return lambda x, y: float(np.exp(-gamma * np.sum((x - y) ** 2)))


def polynomial(degree: int, constant: float = 1.0) -> Kernel:
    """(<x, y> + constant)^degree."""
    return lambda x, y: float((x @ y + constant) ** degree)


class Operator(NamedTuple):
    """A similarity: its kernel, its terms, oldest first, and whether it started at the identity or at zero."""

    kernel: Kernel
    terms: list[Term]
    identity: bool = True

    def similarity(self, x: Array, y: Array) -> float:
        """S(x, y)."""
        k = self.kernel
        score = k(x, y) if self.identity else 0.0
        for tau, x_i, x_plus, x_minus in self.terms:
            score += tau * k(x, x_i) * (k(x_plus, y) - k(x_minus, y))
        return score

    def margin(self, x: Array, x_plus: Array, x_minus: Array) -> float:
        """z = S(x, x_plus) - S(x, x_minus)."""
        return self.similarity(x, x_plus) - self.similarity(x, x_minus)


class KernelRun(NamedTuple):
    """Like `common.Run`, with the operator in place of a matrix."""

    operator: Operator
    plausibility: Array
    tau: Array
    n_updates: int


class MultiKernelRun(NamedTuple):
    """Like `multimodal.MultiRun`, with operators: theta (K,), theta_history (n + 1, K), tau and omega (n, K)."""

    operators: list[Operator]
    theta: Array
    theta_history: Array
    plausibility: Array
    omega: Array
    tau: Array
    n_updates: int

    def similarity(self, x: Array, y: Array) -> float:
        """sum_k theta_k S_k(x, y)."""
        return float(sum(t * op.similarity(x, y) for t, op in zip(self.theta, self.operators, strict=True)))


def squared_norm(k: Kernel, x: Array, x_plus: Array, x_minus: Array) -> float:
    """||A||_HS^2 = kappa(x, x) [kappa(x+, x+) - 2 kappa(x+, x-) + kappa(x-, x-)]."""
    return k(x, x) * (k(x_plus, x_plus) - 2.0 * k(x_plus, x_minus) + k(x_minus, x_minus))


def oks_step(
    operator: Operator,
    x: Array,
    x_plus: Array,
    x_minus: Array,
    C: float,
    eta: float,
    max_hq_iter: int,
    budget: int | None,
) -> tuple[Operator, float, float]:
    """The new operator, tau and plausibility. Beyond `budget` terms the oldest is forgotten."""
    sq_norm = squared_norm(operator.kernel, x, x_plus, x_minus)
    z = operator.margin(x, x_plus, x_minus)
    loss_t = float(hinge(z))
    if not (loss_t > 0.0 and sq_norm > 0.0):
        return operator, 0.0, float(plausibility(loss_t, eta))

    def loss_after(tau: float) -> float:
        longer = operator._replace(terms=[*operator.terms, (tau, x, x_plus, x_minus)])
        return float(hinge(longer.margin(x, x_plus, x_minus)))

    tau, omega = half_quadratic(loss_after, loss_t / sq_norm, C, eta, max_hq_iter)
    terms = [*operator.terms, (tau, x, x_plus, x_minus)]
    if budget is not None and len(terms) > budget:
        terms = terms[len(terms) - budget :]
    return operator._replace(terms=terms), tau, omega


def oks(
    anchors: Array,
    positives: Array,
    negatives: Array,
    kernel: Kernel = linear,
    C: float = 0.1,
    eta: float = 0.0,
    max_hq_iter: int = 3,
    budget: int | None = None,
    identity: bool = True,
) -> KernelRun:
    """OKS; robust when eta > 0. With the linear kernel it is OASIS."""
    operator = Operator(kernel, [], identity)
    omegas, taus = [], []
    for x, x_plus, x_minus in zip(anchors, positives, negatives, strict=True):
        operator, tau, omega = oks_step(operator, x, x_plus, x_minus, C, eta, max_hq_iter, budget)
        omegas.append(omega)
        taus.append(tau)
    tau_array = np.array(taus)
    return KernelRun(operator, np.array(omegas), tau_array, int(np.sum(tau_array > 0.0)))


def omks(
    anchors: Array,
    positives: Array,
    negatives: Array,
    kernels: Sequence[Kernel],
    C: float = 0.1,
    beta: float = 0.9,
    eta: float = 0.0,
    max_hq_iter: int = 3,
    budget: int | None = None,
    identity: bool = True,
) -> MultiKernelRun:
    """OMKS: every kernel learns by itself as in `oks`; theta_k falls by beta when kernel k ranks a triplet wrongly.

    Wrong means z_k < 0 with the operator before the triplet. The plausibility of a triplet is the mean over kernels,
    by the weights before the triplet.
    """
    K = len(kernels)
    operators = [Operator(kernel, [], identity) for kernel in kernels]
    history = [np.full(K, 1.0 / K)]
    omegas, taus = [], []
    for x, x_plus, x_minus in zip(anchors, positives, negatives, strict=True):
        mistakes = np.array([op.margin(x, x_plus, x_minus) < 0.0 for op in operators], dtype=np.float64)
        steps = [oks_step(op, x, x_plus, x_minus, C, eta, max_hq_iter, budget) for op in operators]
        operators = [op for op, _, _ in steps]
        taus.append([tau for _, tau, _ in steps])
        omegas.append([omega for _, _, omega in steps])
        history.append(hedge_step(history[-1], mistakes, beta))
    theta, omega, tau_array = np.array(history), np.array(omegas), np.array(taus)
    mean = np.sum(theta[:-1] * omega, axis=1)
    return MultiKernelRun(operators, theta[-1], theta, mean, omega, tau_array, int(np.sum(np.any(tau_array > 0, 1))))
