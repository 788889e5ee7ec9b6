"""Logged data of any layout to episodes: named columns and a declared mapping in, episodes and a report of what was assumed out."""
