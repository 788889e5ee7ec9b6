"""The settings in which each learner is compared with its reference: together they use every option of its equations."""

from tests.trainer.fidelity.comparison import Case

BC = {
    "default": Case("continuous", own_weights=True),
    "options": Case(
        "continuous",
        {"log_std_range": (-0.2, 0.1), "decay": ("policy",), "dropout": 0.4, "max_grad_norm": 0.3, "ema_decay": 0.9, "activation": "gelu"},
        single=True,
    ),
    "state-dependent": Case("continuous", {"state_dependent_std": True, "log_std_range": (-0.4, 0.3), "action_clip": 0.5}, single=True),
    "squared-error": Case("continuous", {"loss": "squared_error", "squash_mean": False, "warmup": 2, "activation": "silu"}),
    "unbounded": Case("unbounded", {"loss": "squared_error", "activation": "tanh"}),
    "discrete": Case("discrete", {"decay": ("policy",), "decay_shape": "linear"}, own_weights=True, single=True),
}
IQL = {
    "default": Case("continuous", own_weights=True),
    "joint": Case(
        "continuous", {"order": "joint", "temperature": 6.0, "max_weight": 1.5, "expectile": 0.9, "tau": 0.1, "ema_decay": 0.9}, single=True
    ),
    "corl": Case("continuous", {"critic_loss": "mean", "policy_loss": "squared_error", "log_std_range": (-0.2, 0.1), "max_grad_norm": 0.3}),
    "four-critics": Case(
        "continuous",
        {"squash_mean": False, "state_dependent_std": True, "decay": ("critic", "value"), "decay_shape": "linear", "num_critics": 4},
    ),
    "one-critic": Case(
        "continuous", {"layer_norm": True, "num_critics": 1, "weight_decay": 0.1, "warmup": 2, "advantage": "online"}, single=True
    ),
    "dropout": Case("continuous", {"dropout": 0.4, "policy_learning_rate": 3e-3, "decay": (), "residual": True, "hidden_sizes": (4, 4)}),
    "unbounded": Case("unbounded", {"order": "joint", "networks": {"policy": {"hidden_sizes": (), "layer_norm": True}}}),
    "discrete": Case("discrete", own_weights=True),
    "discrete-joint": Case("discrete", {"order": "joint", "temperature": 6.0, "max_weight": 1.5, "num_critics": 3}),
    "dueling": Case("discrete", {"advantage_hidden_sizes": (3,), "layer_norm": True, "max_grad_norm": 0.3, "weight_decay": 0.1}),
    "linear-dueling": Case(
        "discrete", {"advantage_hidden_sizes": (), "dropout": 0.3, "activation": "elu", "advantage": "online"}, single=True
    ),
}
N = {"n_actions": 3}
CQL = {
    "default": Case("continuous", {**N, "policy_learning_rate": 3e-3}, own_weights=True),
    "set-of-authors": Case(
        "continuous", {**N, "backup_entropy": True, "importance_sampling": False, "conservative_temperature": 0.5, "min_q_weight": 0.7}
    ),
    "lagrange": Case(
        "continuous",
        {
            **N,
            "max_target_backup": True,
            "lagrange_gap": 0.8,
            "log_std_range": (-0.3, 0.2),
            "decay": ("critic", "policy"),
            "ema_decay": 0.9,
        },
        single=True,
    ),
    "warm-up": Case(
        "continuous", {**N, "bc_warmup": 2, "difference_clip": (0.5, 1.5), "lagrange_gap": 1.0, "target_entropy": -0.7, "tau": 0.1}
    ),
    "fixed-alpha": Case(
        "continuous",
        {**N, "learn_alpha": False, "layer_norm": True, "weight_decay": 0.1, "max_grad_norm": 0.5, "num_critics": 3},
        single=True,
    ),
    "one-critic": Case(
        "continuous", {**N, "num_critics": 1, "backup_entropy": True, "max_target_backup": True, "log_std_affine": (1.0, -1.0)}
    ),
    "lagrange-decay": Case("continuous", {**N, "lagrange_gap": 1.0, "weight_decay": 0.1, "warmup": 3, "activation": "leaky_relu"}),
    "discrete": Case("discrete", own_weights=True),
    "dueling": Case(
        "discrete",
        {"conservative_temperature": 0.5, "min_q_weight": 0.7, "advantage_hidden_sizes": (3,), "decay": ("critic",), "ema_decay": 0.9},
        single=True,
    ),
    "discrete-lagrange": Case(
        "discrete", {"lagrange_gap": 1.2, "difference_clip": (None, 1.5), "num_critics": 4, "layer_norm": True, "max_grad_norm": 0.5}
    ),
}
CQL_EDGE = Case("continuous", {**N, "bc_warmup": 3}, edge=True)  # float32 has no digits to spare where tanh ends
TD3_BC = {
    "default": Case("continuous", own_weights=True),
    "joint": Case(
        "continuous",
        {"order": "joint", "policy_every": 1, "alpha": 1.0, "noise_clip": 0.1, "num_critics": 3, "layer_norm": True, "ema_decay": 0.9},
        single=True,
    ),
    "options": Case(
        "continuous", {"decay": ("policy", "critic"), "weight_decay": 0.1, "max_grad_norm": 0.3, "action_clip": 0.5, "tau": 0.1}
    ),
}
AWAC = {
    "default": Case("continuous", own_weights=True),
    "exponential": Case(
        "continuous",
        {"weights": "exponential", "max_weight": 1.5, "n_actions": 3, "order": "joint", "squash_mean": False, "temperature": 0.5},
        single=True,
    ),
    "options": Case("continuous", {"dropout": 0.4, "state_dependent_std": True, "weight_decay": 0.1, "num_critics": 1, "ema_decay": 0.9}),
    "unbounded": Case("unbounded", {"log_std_range": (-0.2, 0.1), "layer_norm": True, "n_actions": 2}),
    "discrete": Case("discrete", {"advantage_hidden_sizes": (3,), "dropout": 0.3, "decay": ("policy",)}, single=True),
}
EDAC = {
    "default": Case("continuous", {"num_critics": 4}, own_weights=True),
    "sac-n": Case("continuous", {"num_critics": 3, "eta": 0.0, "learn_alpha": False, "layer_norm": True, "weight_decay": 0.1}),
    "options": Case(
        "continuous",
        {"num_critics": 3, "eta": 5.0, "backup_entropy": False, "target_entropy": -0.7, "decay": ("policy",), "ema_decay": 0.9},
        single=True,
    ),
    "one-critic": Case("continuous", {"num_critics": 1, "eta": 0.0, "log_std_affine": (1.0, -1.0), "max_grad_norm": 0.5}),
}
REBRAC = {
    "default": Case("continuous", own_weights=True, next_action=True, single=True),
    "options": Case(
        "continuous",
        {"normalize_q": False, "actor_bc": 0.3, "critic_bc": 0.2, "action_clip": 0.5, "layer_norm": False, "order": "joint"},
        next_action=True,
    ),
}
