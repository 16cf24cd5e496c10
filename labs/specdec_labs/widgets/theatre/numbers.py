"""Probabilities as short text."""


def short(value: float) -> str:
    """Four decimals; scientific below 0.0001, so that a small probability never reads as zero."""
    if value in (0.0, 1.0):
        return str(int(value))
    return f"{value:.4f}" if value >= 1e-4 else f"{value:.1e}"


def told_apart(left: float, right: float) -> tuple[str, str]:
    """Both values with as many decimals as it takes (up to 9) to see which one is larger."""
    if left == right or min(left, right) < 1e-4:
        return short(left), short(right)
    for digits in range(4, 10):
        pair = f"{left:.{digits}f}", f"{right:.{digits}f}"
        if pair[0] != pair[1]:
            return pair
    return pair


def rounded(value: float) -> float:
    """Six significant digits: what a reader can use, and small in a saved notebook."""
    return float(f"{value:.6g}")
