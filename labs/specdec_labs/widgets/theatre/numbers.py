"""Probabilities as short text."""


def short(value: float) -> str:
    """Four decimals, or three significant digits below 0.1, so that a small probability never reads as zero."""
    if value in (0.0, 1.0):
        return str(int(value))
    if value >= 0.1:
        return f"{value:.4f}"
    return f"{value:#.3g}" if value >= 1e-4 else f"{value:.1e}"


def told_apart(left: float, right: float) -> tuple[str, str]:
    """Both values, with as many decimals as it takes (up to 9) to see which one is larger."""
    pair = short(left), short(right)
    for digits in range(5, 10):
        if pair[0] != pair[1] or left == right:
            break
        pair = f"{left:.{digits}f}", f"{right:.{digits}f}"
    return pair


def rounded(value: float) -> float:
    """Six significant digits: what a reader can use, and small in a saved notebook."""
    return float(f"{value:.6g}")
