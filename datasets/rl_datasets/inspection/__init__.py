"""What an unknown file holds: its columns and their likely roles, the known oddities with their evidence, and an entry that imports it."""
