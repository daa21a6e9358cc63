"""Measure Decide of a durable tenant, which answers after its commit, against Echo on the same server object."""

from tests.bench.decide import FLIGHT, RATE, SEED, measured
from tests.bench.figures import Bar, Report, Row, Setting

RPS_BAR, SYNCS_BAR = Bar(at_least=0.60), Bar(at_most=5.0)


def decide_durable(setting: Setting) -> Report:
    """Compare with Echo, and what waiting adds with the disk's own sync of the same round."""
    bench, lost = measured(setting, durable=True)
    syncs = [added / sync for added, sync in zip(bench.added_p99, bench.fdatasync, strict=True)]
    rows = [
        Row.of_rounds(f"durable Decide RPS / Echo RPS, {FLIGHT}", bench.rps_ratios, RPS_BAR),
        Row.of_rounds(f"p99(Decide) - p99(Echo) at {RATE:g} RPS, in fdatasyncs", syncs, SYNCS_BAR),
        Row.of_rounds(f"p99(Decide) - p99(Echo) at {RATE:g} RPS", bench.added_p99, unit="ms"),
        Row.of_rounds(f"Decide CPU / Echo CPU per request, {FLIGHT}", bench.cpu_ratios),
        Row.of_rounds("one fdatasync", bench.fdatasync, unit="ms"),
        *bench.plain_rows(lost),
    ]
    return Report(rows=rows, controls=bench.controls, notes=bench.notes(), seeds=[SEED])
