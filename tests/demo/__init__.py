"""The demo's worlds, client and measure."""
