"""The OpenEnv server of call audits; needs the `server` extra."""
