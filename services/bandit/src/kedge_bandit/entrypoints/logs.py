"""Write logs as one JSON object a line: events, not sentences; ids as fields; no prompt, no user's text, no secret."""

import logging
import sys

import orjson
import structlog


def set_up_logs(level: str) -> None:
    """Send structlog and the standard library's loggers to standard error, from `level` up."""
    processors: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    render = structlog.processors.JSONRenderer(serializer=lambda event, **_: orjson.dumps(event, default=str).decode())
    structlog.configure(
        processors=[*processors, render],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level)),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=processors, processor=render))
    logging.basicConfig(level=level, handlers=[handler], force=True)
