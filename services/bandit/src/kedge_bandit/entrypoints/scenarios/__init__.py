"""Nine adversarial scenarios, played in this process by the service's own domain code: `kedge bench scenarios`."""
