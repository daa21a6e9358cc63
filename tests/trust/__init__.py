"""What makes the service worth its place on the hot path: kills, faults, fuzzing, walls between tenants, scale."""
