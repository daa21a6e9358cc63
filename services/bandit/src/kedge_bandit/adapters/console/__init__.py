"""Show people what is served and let them decide: pages rendered on the server, over the API and nothing else."""
