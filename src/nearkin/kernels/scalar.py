"""The formulas of `nearkin.losses` and `nearkin.steps`, compiled as they stand."""

from nearkin import losses, steps
from nearkin.kernels._compile import step

exponential_weight = step(losses.exponential_weight)
half_quadratic = step(steps.half_quadratic)
linear_z = step(steps.linear_z)
linear_kink = step(steps.linear_kink)
factored_curve = step(steps.factored_curve)
factored_z = step(steps.factored_z)
factored_kink = step(steps.factored_kink)
factored_update = step(steps.factored_update)
subgradient_update = step(steps.subgradient_update)
