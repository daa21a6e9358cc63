"""Play three tenants of public data through Kedge as a core application would, and measure what came of it.

Nothing here imports the bandit: `worlds` knows the truth, `play` is the client process, `measure` computes the figures
from the export and the truth alone, `report` shows them.
"""
