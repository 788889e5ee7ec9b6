"""How tests compile: most of the time of learners' tests went into optimising programs that run for milliseconds."""

QUICK = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}
SHIPPED = {"xla_backend_optimization_level": 3, "xla_cpu_use_fusion_emitters": True, "xla_cpu_parallel_codegen_split_count": 32}


def flags(options: dict[str, int]) -> str:
    """As the environment's XLA_FLAGS."""
    return " ".join(f"--{name}={str(value).lower()}" for name, value in options.items())
