"""The OpenEnv server of relocation cases; needs the `server` extra."""
