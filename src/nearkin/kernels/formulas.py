"""The formulas of `nearkin.losses` and `nearkin.steps`, compiled as they stand."""

from nearkin import losses, steps
from nearkin.kernels.machine.compile import body, step

exponential_weight = step(losses.exponential_weight)
plausibility_of = step(steps.plausibility_of)
squared_norm = step(steps.squared_norm)
half_quadratic = step(steps.half_quadratic)
half_quadratic_by = step(steps.half_quadratic_by)
linear_z = step(steps.linear_z)
linear_kink = step(steps.linear_kink)
factored_bound = step(steps.factored_bound)
factored_curve = step(steps.factored_curve)
factored_z = step(steps.factored_z)
factored_kink = step(steps.factored_kink)
factored_update = step(steps.factored_update)
subgradient_update = step(steps.subgradient_update)
logdet_curve = step(steps.logdet_curve)
logdet_z = step(steps.logdet_z)
logdet_kink = step(steps.logdet_kink)
logdet_update = step(steps.logdet_update)
pair_z = step(steps.pair_z)
pair_step = step(steps.pair_step)
pair_roots = step(steps.pair_roots)
is_step = step(steps.is_step)
hedge = step(steps.hedge)
clip_and_normalise = step(steps.clip_and_normalise)
onto_simplex = step(steps.onto_simplex)


@body
def linear_step(z, sq_norm, C, rule, weight, full_weight):
    """Passive-aggressive step size (Eqs. 22 and 25) and weight of a triplet; no step where it has no loss."""
    if not z < 1.0:
        return 0.0, full_weight
    if not sq_norm > 0.0:
        return 0.0, weight(1.0 - z, rule.params[0], rule.params[1])
    curve = (z, sq_norm)
    return half_quadratic(linear_z, curve, linear_kink(curve), C, weight, rule.params, rule.max_hq_iter)
