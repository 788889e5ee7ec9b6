"""ReBRAC in NumPy, after Tarasov et al. (2023) and the authors' code: TD3 with the distance from the data in actor and critic."""

import numpy as np

from rl_datasets.schema import Transition
from tests.trainer.fidelity.networks import Network
from tests.trainer.fidelity.tape import Var, smallest
from tests.trainer.fidelity.td3 import TD3


class ReBRAC(TD3):
    def policy_loss(self, policy: Network, critics: list[Network], batch: Transition) -> Var:
        """The mean of beta_1 |pi(s) - a|^2 - lambda min_i q_i(s, pi(s)), lambda being 1, or 1 over the mean of |min_i q_i|."""
        action = self.pi(policy, batch.observation)
        q = smallest(self.q(critics, batch.observation, action))
        scale = 1 / np.abs(q.value).mean() if self.p.normalize_q else 1.0
        return (((action - self.data_action(batch)) ** 2).sum(1) * self.p.actor_bc - q * scale).mean()

    def next_v(self, batch: Transition, action: np.ndarray) -> np.ndarray:
        """min_i q_target_i(s', a') - beta_2 |a' - the data's next action|^2, [B]; without the second where the data have none."""
        following = batch.next_action
        distance = ((action - self.inner(following.action)) ** 2).sum(1)
        return super().next_v(batch, action) - self.p.critic_bc * following.exists * distance  # type: ignore[no-any-return]
