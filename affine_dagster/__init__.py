"""The library of the Affine validator: everything that the assets call, importable and testable without Dagster."""
