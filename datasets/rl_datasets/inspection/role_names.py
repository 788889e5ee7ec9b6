"""The roles that a column may have. A module that imports nothing, for the help of the command names them too."""

from collections.abc import Mapping

ROLES: Mapping[str, str] = {  # and what a column of it holds
    "observation": "what is known before the action",
    "next_observation": "what is known after it",
    "action": "what was done",
    "reward": "what came of it, more of which is better",
    "cost": "what came of it, less of which is better",
    "terminal": "1 where the task ended by itself",
    "truncated": "1 where it was cut off",
    "end": "1 on the last row of an episode, whatever the reason",
    "start": "1 on the first row of an episode",
    "lengths": "the rows of each episode, counted",
    "indices": "the rows on which episodes end",
    "id": "which episode a row is of",
    "sequence": "the order of the rows of an id: a count or a time",
    "policy": "the name of the policy that acted",
    "metadata": "kept, one value an episode",
    "step_metadata": "kept, one value a step",
    "ignore": "left out",
}
