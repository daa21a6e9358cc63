"""Play, measure and serve the verified training grounds; improve prompts and weights on them."""
