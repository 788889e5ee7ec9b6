"""Off-policy evaluation by fitted Q evaluation (FQE): what a policy is worth, told from logged data alone.

    Q <- argmin [ (Q(s, a) - (r + gamma d Q_target(s', pi(s'))))^2 ]    on the train split, for a policy pi that stays as it is
    estimate = mean over initial states s0 of held-out episodes of Q(s0, pi(s0))

After Le, Voloshin and Yue (2019), with critics and targets as in Paine et al. (2020) and the benchmark of Fu et al. (2021, DOPE).

- The policy is the one that is handed on and that the environment plays: `act`, the deterministic action. An expectation over its
  actions is then one value, for discrete and continuous actions alike. Nothing is said of `sample`.
- Rewards are as logged, whatever a learner made of them, and d is the data's discount: 0 into a terminal state, 1 where an episode was
  cut. So a value is that of going on without a time limit.
- The same estimator, fitted to the next actions of the data in place of a policy's, gives the behaviour's value, which the returns of
  the held-out episodes tell too. Their difference is how far the estimator is off where the truth is known.

params.py says how it is fitted, fitting.py how it learns, logged.py what the held-out episodes show, support.py how far the policy's
actions are from the data's, summary.py what is reported and which signs of trouble there are, and estimate.py does all of it.
"""
