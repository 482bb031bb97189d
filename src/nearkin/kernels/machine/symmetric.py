"""Symmetric matrices in compiled loops: products and updates that touch one triangle, and two small eigenproblems.

Matrices are C-ordered without gaps. Loops read and write only the part on and below the diagonal, which halves the
memory traffic they wait for.
"""

import math

from nearkin.kernels.machine.compile import body, helper

__all__ = ["add_outer_products", "eigen_small", "mirror", "multiply", "multiply_between", "smallest_of_tridiagonal"]


@helper
def multiply(W, x, y):
    """``y = W x``; four rows at a time share the elements read of x and y."""
    d = W.shape[0]
    for k in range(d):
        y[k] = 0.0
    whole = d - d % 4
    for i in range(0, whole, 4):
        x_0, x_1, x_2, x_3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        s_0 = s_1 = s_2 = s_3 = 0.0
        for k in range(i):
            w_0, w_1, w_2, w_3 = W[i, k], W[i + 1, k], W[i + 2, k], W[i + 3, k]
            s_0 += w_0 * x[k]
            s_1 += w_1 * x[k]
            s_2 += w_2 * x[k]
            s_3 += w_3 * x[k]
            y[k] += w_0 * x_0 + w_1 * x_1 + w_2 * x_2 + w_3 * x_3
        y[i] += s_0
        y[i + 1] += s_1
        y[i + 2] += s_2
        y[i + 3] += s_3
        for j in range(i, i + 4):
            for k in range(i, j):
                y[j] += W[j, k] * x[k]
                y[k] += W[j, k] * x[j]
            y[j] += W[j, j] * x[j]
    for i in range(whole, d):
        s_0 = 0.0
        x_0 = x[i]
        for k in range(i):
            s_0 += W[i, k] * x[k]
            y[k] += W[i, k] * x_0
        y[i] += s_0 + W[i, i] * x_0


@body
def multiply_between(W, x, y, Wy):
    """``x' W y``; also writes ``Wy``."""
    multiply(W, y, Wy)
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k] * Wy[k]
    return total


@helper
def add_outer_products(W, columns, factors, n):
    """``W += sum_j factors[j] c_j c_j'`` for the first n rows c of ``columns``."""
    for i in range(W.shape[0]):
        row = W[i]
        j = 0
        while j < n:
            # Four rows per pass; those beyond the last have factor zero.
            c_0, c_1 = columns[j], columns[min(j + 1, n - 1)]
            c_2, c_3 = columns[min(j + 2, n - 1)], columns[min(j + 3, n - 1)]
            a_0 = factors[j] * c_0[i]
            a_1 = factors[j + 1] * c_1[i] if j + 1 < n else 0.0
            a_2 = factors[j + 2] * c_2[i] if j + 2 < n else 0.0
            a_3 = factors[j + 3] * c_3[i] if j + 3 < n else 0.0
            for k in range(i + 1):
                row[k] += a_0 * c_0[k] + a_1 * c_1[k] + a_2 * c_2[k] + a_3 * c_3[k]
            j += 4


@helper
def mirror(W):
    """Copy the part below the diagonal above it."""
    for i in range(W.shape[0]):
        for k in range(i):
            W[k, i] = W[i, k]


@helper
def eigen_small(B, n, vectors):
    """Eigen-decomposition of the leading n x n part by Jacobi's rotations; the values end on B's diagonal.

    Column j of ``vectors`` belongs to ``B[j, j]``. For a handful of rows, where a library call costs more.
    """
    for i in range(n):
        for j in range(n):
            vectors[i, j] = 1.0 if i == j else 0.0
    for _ in range(50):
        moved = False
        for p in range(n - 1):
            for q in range(p + 1, n):
                if abs(B[p, q]) <= 1e-17 * (abs(B[p, p]) + abs(B[q, q])):
                    continue
                moved = True
                slope = 0.5 * (B[q, q] - B[p, p]) / B[p, q]
                t = 1.0 / (abs(slope) + math.sqrt(1.0 + slope * slope))
                if slope < 0.0:
                    t = -t
                c = 1.0 / math.sqrt(1.0 + t * t)
                s = t * c
                for k in range(n):
                    a, b = B[k, p], B[k, q]
                    B[k, p] = c * a - s * b
                    B[k, q] = s * a + c * b
                for k in range(n):
                    a, b = B[p, k], B[q, k]
                    B[p, k] = c * a - s * b
                    B[q, k] = s * a + c * b
                for k in range(n):
                    a, b = vectors[k, p], vectors[k, q]
                    vectors[k, p] = c * a - s * b
                    vectors[k, q] = s * a + c * b
        if not moved:
            break


@helper
def smallest_of_tridiagonal(diagonal, off, m, above, fall):
    """Smallest eigenvalue of a tridiagonal matrix of order m, given that of its leading part of order m - 1.

    It is the root left of ``above`` of ``(diagonal[m-1] - x) p(x) = off[m-2]^2``. There p, the last pivot of the
    leading part less x, is nearly linear; with its tangent in its place the root solves a quadratic equation. ``fall``
    is minus the slope of p at ``above``: the squared length of the leading part's eigenvector that ends in 1.
    """
    if m == 1:
        return diagonal[0]
    square = off[m - 2] * off[m - 2]
    low = min(above, diagonal[m - 1]) - off[m - 2]
    high = above
    lead = diagonal[m - 1] - above
    spread = lead + math.sqrt(lead * lead + 4.0 * square / fall)
    x = max(low, above - 2.0 * square / fall / spread) if spread > 0.0 else low
    for _ in range(60):
        p = diagonal[0] - x
        slope = -1.0
        inside = p > 0.0
        for i in range(1, m - 1):
            if p <= 0.0:
                inside = False
                break
            ratio = off[i - 1] / p
            slope = -1.0 + ratio * ratio * slope
            p = diagonal[i] - x - off[i - 1] * ratio
        last = diagonal[m - 1] - x
        gap = last * p - square
        new = math.inf
        if inside and p > 0.0 and last > 0.0:
            if gap > 0.0:
                low = x
            else:
                high = x
            b = p - last * slope
            new = x + 2.0 * gap / (b + math.sqrt(max(0.0, b * b + 4.0 * slope * gap)))
        else:
            high = x
        if not low <= new <= high:
            new = 0.5 * (low + high)
        if abs(new - x) <= 2e-15 * abs(new):
            return new
        x = new
    return x
