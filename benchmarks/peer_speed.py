"""How fast one provider is beside others that took turns with it: lists of microseconds by name, of which sample i of all is of one round."""

import statistics


def middle_mean(values):
    """Mean of the middle four fifths: finer than the median, which moves by whole ticks of the events' clock (32 ns)."""
    ordered = sorted(values)
    cut = len(ordered) // 10
    return statistics.fmean(ordered[cut : len(ordered) - cut])


def speed_over(peers, times, own):
    """Speed of `own` over the best of `peers`, by their medians, and by the mean over rounds."""
    medians = {peer: statistics.median(times[peer]) for peer in peers}
    return {
        "speed": min(medians.values()) / statistics.median(times[own]),
        "mean_speed": min(
            middle_mean(theirs / ours for theirs, ours in zip(times[peer], times[own])) for peer in peers
        ),
    }
