"""The experiments that Kiln grew from, each with a command: ``kiln experiment list``.

``catalogue`` names them, ``command`` runs them, and a module of each one's name measures. docs/experiments.md walks
through them.
"""
