"""The OpenEnv server of briefs; needs the `server` extra."""
