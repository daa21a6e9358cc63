"""The four environments as traffic: who plays is chosen, the grade is the task's success, a breach is a veto."""
