"""Learners as pure functions, the loop that runs them, and the evaluation of what they learnt."""
