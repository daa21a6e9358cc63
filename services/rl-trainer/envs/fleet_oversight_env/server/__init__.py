"""The OpenEnv server of fleet oversight; needs the `server` extra."""
