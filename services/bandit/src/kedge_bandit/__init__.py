"""Choose the safe knobs of an agent's next episode, learn from what happened and stay under control."""
