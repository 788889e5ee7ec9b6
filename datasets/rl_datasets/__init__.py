"""Logged experience as RLDS: building, checking, splitting and streaming it. Nothing here imports the trainer."""
