"""What is kept of the samples of one measurement."""

import statistics


def spread_us(samples):
    """Their median, 10th and 90th percentile."""
    ordered = sorted(samples)
    return {
        "median_us": statistics.median(ordered),
        "p10_us": ordered[len(ordered) // 10],
        "p90_us": ordered[len(ordered) * 9 // 10],
    }
