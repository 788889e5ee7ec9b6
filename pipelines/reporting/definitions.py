"""What the report's numbers mean, in the words that the page shows."""

from trainer.fitted_q.support import NEIGHBOURS, QUANTILE
from trainer.metrics import CONFIDENCE, RESAMPLES, TRIM

PLAYED_DEFINITIONS = (
    (
        "Evaluation",
        "The final weights of every training seed, acting without noise, in fresh environments. Which episodes are played is settled "
        "before any is: an episode that ends early is not replaced by another, so short ones count no more than long ones. Every "
        "training seed plays the same recorded environment seeds, and so do experiments with the same evaluation seed; a difference "
        "between two of them is then one between policies, not between starting states.",
    ),
    ("Return", "The undiscounted sum of the environment's rewards over one episode, before any scaling that a learner asks for."),
    (
        "Mean \u00b1 SD",
        "Mean and population standard deviation over the episodes of all training seeds: how much single episodes differ. How far "
        "to trust the average is the interval's matter.",
    ),
    (
        "IQM",
        f"Interquartile mean: the mean of the middle {1 - 2 * TRIM:.0%} of all episodes of all seeds; a lucky or a lost run moves it "
        "less than the mean (Agarwal et al. 2021).",
    ),
    (
        f"{CONFIDENCE:.0%} interval",
        f"Percentile bootstrap of the IQM from {RESAMPLES:,} resamples: training seeds with replacement, and episodes with replacement "
        "within them, the same draw for all, because they share starting states (Owen 2007). With as few as five seeds such an "
        "interval is somewhat short; read the worst seed beside it.",
    ),
    ("Worst seed", "The lowest mean return of a single training seed."),
    ("Behaviour", "The mean return of the episodes that the policies learnt from (the training split)."),
    (
        "Score",
        "100 * (mean return \u2212 random) / (expert \u2212 random), with the references recorded in the data set. Where none are known "
        "there is no score.",
    ),
    ("Success", "The share of episodes whose last step the environment called a success; shown where an environment reports it."),
)

ESTIMATE_DEFINITIONS = (
    (
        "Estimate",
        "What the policy earns as the data alone tell it, by fitted Q evaluation (Le, Voloshin and Yue 2019): critics of the final policy, "
        "acting without noise, are fitted on the training split, and averaged over the initial states of the test split. Rewards are as "
        "logged and discounted by the gamma that is named; a time limit ends nothing. It is no return that anybody has seen.",
    ),
    (
        "Behaviour, discounted",
        "The discounted return of the same test episodes, as logged. To an episode that was cut, the estimator's value of what was still "
        "to come is added.",
    ),
    (
        "Calibration",
        "The same estimator, fitted to what the data did next in place of a policy's actions, less the behaviour's discounted return: how "
        "far it is off where the truth is known. An estimate deserves no more trust than that. Where data come from several policies in "
        "turn, part of it is that no single policy of the state acts as they did.",
    ),
    (
        "Far actions",
        f"The share of held-out states at which the policy's action is farther from those taken at the {NEIGHBOURS} most similar training "
        f"states than {QUANTILE:.0%} of the data's own actions are. It says nothing of states that only the policy would come to.",
    ),
    (
        "Played",
        "Where policies were played as well: the mean discounted return of those episodes, which the estimate should come near to. An "
        "episode that a time limit ended lacks what would have followed.",
    ),
)

DEFINITIONS = (
    ("Transitions", "Steps of the training split: observation, action, reward, next observation."),
    ("Updates", "Gradient updates of each training seed. Curves show their losses on batches of the training and validation splits."),
    ("Digest", "SHA-256 of an artifact's content, independent of how it is cut into files."),
)
