"""Real variates, their logarithms and normal ones, by fixed sequences of double precision operations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

MASK64 = (1 << 64) - 1


def unit_interval(variate: int) -> float:
    """Map 64 bits to the open unit interval: the odd multiple of 2**-53 that the upper 52 bits name."""
    return (2 * (variate >> 12) + 1) * 2.0**-53


def negative_log(u: float) -> float:
    """-ln(u) for u in (0, 1), by a fixed sequence of double precision operations.

    u = m * 2**e with m in [sqrt(1/2), sqrt(2)), s = (m - 1) / (m + 1), z = s * s,
    ln(m) = 2s + 2s * z * (1/3 + z/5 + z**2/7 + ... + z**10/23).
    """
    mantissa, exponent = np.frexp(np.float64(u))  # mantissa in [1/2, 1)
    m, e = float(mantissa), int(exponent)
    if m < 0.7071067811865476:
        m, e = m + m, e - 1
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = 1.0 / 23.0
    for denominator in range(21, 1, -2):
        series = series * z + 1.0 / denominator
    twice = s + s
    log_m = twice + twice * (z * series)
    # ln(2) in two parts: the first has trailing zeros, so that its product with e is exact.
    return -(e * 6.93147180369123816490e-01 + (log_m + e * 1.90821492927058770002e-10))


# --- the normal distribution: AS 241 (Wichura 1988), PPND16, and Hart 5666 (1968) -------------------------------------

_CENTRAL = (
    2.50908092873012266727e3, 3.34305755835881281050e4, 6.72657709270087008530e4, 4.59219539315498714570e4,
    1.37316937655094611250e4, 1.97159095030655144270e3, 1.33141667891784377450e2, 3.38713287279636660800e0,
)  # fmt: skip
_CENTRAL_BELOW = (
    5.22649527885285456100e3, 2.87290857357219426740e4, 3.93078958000927106100e4, 2.12137943015865958670e4,
    5.39419602142475110770e3, 6.87187007492057908300e2, 4.23133307016009112520e1, 1.0,
)  # fmt: skip
_OUTER = (
    7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
    3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0,
)  # fmt: skip
_OUTER_BELOW = (
    1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
    6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0,
)  # fmt: skip
_FAR = (
    2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
    2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0,
)  # fmt: skip
_FAR_BELOW = (
    2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
    1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0,
)  # fmt: skip
_TAIL = (
    3.52624965998911e-02, 0.700383064443688, 6.37396220353165, 33.912866078383,
    112.079291497871, 221.213596169931, 220.206867912376,
)  # fmt: skip
_TAIL_BELOW = (
    8.83883476483184e-02, 1.75566716318264, 16.064177579207, 86.7807322029461,
    296.564248779674, 637.333633378831, 793.826512519948, 440.413735824752,
)  # fmt: skip


def polynomial(coefficients: Sequence[float], x: float) -> float:
    """Horner, the highest power first."""
    value = coefficients[0]
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


def normal_quantile(u: float) -> float:
    """Phi^-1 of a real variate."""
    q = u - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        return polynomial(_CENTRAL, r) * q / polynomial(_CENTRAL_BELOW, r)
    r = math.sqrt(negative_log(u if q < 0.0 else 1.0 - u))
    if r <= 5.0:
        x = polynomial(_OUTER, r - 1.6) / polynomial(_OUTER_BELOW, r - 1.6)
    else:
        x = polynomial(_FAR, r - 5.0) / polynomial(_FAR_BELOW, r - 5.0)
    return -x if q < 0.0 else x


def exp_minus(x: float) -> float:
    """exp(-x): x = k ln(2) - f, exp(f) by its Taylor series."""
    k = (x * 1.4426950408889634 + 1.5 * 2.0**52) - 1.5 * 2.0**52
    f = (k * 6.93147180369123816490e-01 - x) + k * 1.90821492927058770002e-10
    return math.ldexp(polynomial([1.0 / math.factorial(n) for n in range(13, -1, -1)], f), -int(k))


def normal_variate(z: float) -> int:
    """Phi as a variate of 64 bits; that of -z is the complement."""
    x = abs(z)
    tail = exp_minus(x * x * 0.5) * (polynomial(_TAIL, x) / polynomial(_TAIL_BELOW, x))
    variate = int(tail * 2.0**64)
    return variate if z < 0.0 else MASK64 - variate


def turn(part: float) -> tuple[float, float]:
    """Cosine and sine of this part of a quarter turn, by Taylor series up to an eighth."""
    angle = (part if part <= 0.5 else 1.0 - part) * 1.5707963267948966
    square = angle * angle
    even = odd = 1.0
    for n in range(16, 0, -2):
        even = 1.0 - square / (n * (n - 1)) * even
        odd = 1.0 - square / (n * (n + 1)) * odd
    odd = angle * odd
    return (even, odd) if part <= 0.5 else (odd, even)
