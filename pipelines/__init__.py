"""Orchestration: one thin file a stage, the parameters that they read, and the records that they leave."""
