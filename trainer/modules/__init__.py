"""Flax modules of your own, one file each: networks and encoders that presets name as `trainer.modules.<file>:<class>`."""
