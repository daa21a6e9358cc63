"""Technologies: environments by name, the OpenEnv protocol, language models, plots."""
