"""The epoch's plan, its tasks, and the rollouts that the evaluation jobs write into the ledger."""
