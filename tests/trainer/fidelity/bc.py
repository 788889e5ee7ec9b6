"""Behaviour cloning in NumPy: maximum likelihood, or the least squared error of the mean."""

from functools import partial

import numpy as np

from rl_datasets.schema import Transition
from tests.trainer.fidelity import densities, policies, tape
from tests.trainer.fidelity.networks import Network, mlp
from tests.trainer.fidelity.policies import Kept
from tests.trainer.fidelity.recording import Draws
from tests.trainer.fidelity.reference import Metrics, Reference
from tests.trainer.fidelity.tape import Var


class Cloning(Reference):
    """What BC and the weighted clones share: the data's log-density under a Gaussian or categorical policy."""

    def logits(self, policy: Network, batch: Transition, kept: Kept) -> Var:
        return mlp(policy, self.style("policy"), batch.observation, kept=kept)

    def gaussian(self, policy: Network, batch: Transition, kept: Kept) -> policies.Gaussian:
        return policies.gaussian(policy, self.style("policy"), self.p, batch.observation, self.action.is_bounded, kept)

    def log_prob(self, policy: Network, batch: Transition, kept: Kept) -> Var:
        """[B]"""
        if self.action.is_discrete:
            return densities.categorical(self.logits(policy, batch, kept), self.data_action(batch))
        return densities.normal(*self.gaussian(policy, batch, kept), self.data_action(batch))

    def squared_error(self, policy: Network, batch: Transition, kept: Kept) -> Var:
        """|mean - a|^2, [B]"""
        return ((self.gaussian(policy, batch, kept)[0] - self.data_action(batch)) ** 2).sum(1)

    def kept_units(self, batch: Transition, draws: Draws) -> Kept:
        return policies.kept_units(self.weights["policy"], len(batch.reward), self.p.dropout, draws)

    def policy_metrics(self, policy: Network, batch: Transition, kept: Kept) -> Metrics:
        if self.action.is_discrete:
            spread = policies.categorical_metrics(self.logits(policy, batch, kept))
        else:
            spread = policies.gaussian_metrics(self.gaussian(policy, batch, kept)[1])
        return {"log_prob": float(self.log_prob(policy, batch, kept).value.mean()), **spread}


class BC(Cloning):
    def loss(self, policy: Network, batch: Transition, kept: Kept) -> Var:
        if self.p.loss == "squared_error":
            return self.squared_error(policy, batch, kept).mean()
        return -self.log_prob(policy, batch, kept).mean()

    def report(self, batch: Transition, kept: Kept) -> Metrics:
        policy = self.weights["policy"]
        loss = float(self.loss(policy, batch, kept).value)
        metrics = {"loss": loss, "policy_loss": loss, **self.policy_metrics(policy, batch, kept)}
        if self.action.is_discrete:
            chosen = self.logits(policy, batch, kept).value.argmax(1)
            return {**metrics, "accuracy": float(np.mean(chosen == self.data_action(batch)))}
        return {**metrics, "squared_error": float(self.squared_error(policy, batch, kept).value.mean())}

    def losses(self, batch: Transition, draws: Draws) -> Metrics:
        return self.report(batch, [])

    def update(self, batch: Transition, draws: Draws) -> Metrics:
        kept = self.kept_units(batch, draws)
        metrics = self.report(batch, kept)
        _, gradient = tape.gradient(partial(self.loss, batch=batch, kept=kept), self.weights["policy"])
        norms = self.descend({"policy": gradient})
        self.finish()
        return {**metrics, **norms}
