"""dvc.yaml: each stage declares all the project code that it can import, and nothing that it cannot."""

import ast
import functools
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
STAGES = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text())["stages"]
SOURCES = {"pipelines": ROOT, "trainer": ROOT, "rl_datasets": ROOT / "datasets"}

PLUGINS = ("datasets/rl_datasets/builders", "trainer/learners")
MODULES = "trainer/modules"  # of the user's own, which presets name by import path; a stage depends on the whole folder

# The frame around every stage, and plain helpers: they decide how a stage runs and reports, not what it writes.
FRAME = {
    "pipelines/inputs.py",
    "pipelines/params.py",
    "pipelines/paths.py",
    "pipelines/stage.py",
    "pipelines/yaml_file.py",
    "datasets/rl_datasets/builder.py",
    "datasets/rl_datasets/errors.py",
    "datasets/rl_datasets/files.py",
    "datasets/rl_datasets/manifest.py",
    "datasets/rl_datasets/validation.py",
}


# A collect stage loads a trained policy where an entry asks for one; what it depends on then is the policy, as the entry's `source`.
POLICY_LOADER = {"collect": ("trainer/",)}


def path_of(module: str) -> Path | None:
    package = module.partition(".")[0]
    if package not in SOURCES:
        return None
    base = SOURCES[package].joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


@functools.cache
def imports_of(path: Path) -> frozenset[Path]:
    """The project files that a file imports, wherever in it the import stands."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found for name in names if (found := path_of(name)))


def closure(path: Path) -> set[str]:
    """All project files that running a file can load, without empty package files and without what the frame loads."""
    seen: set[Path] = set()
    stack = [path]
    while stack:
        current = stack.pop()
        if current in seen or current.relative_to(ROOT).as_posix() in FRAME:
            continue
        seen.add(current)
        stack += imports_of(current)
    return {p.relative_to(ROOT).as_posix() for p in seen if not (p.name == "__init__.py" and len(imports_of(p)) == 0)}


def declared(stage: str) -> set[str]:
    definition = STAGES[stage].get("do", STAGES[stage])
    return {dep for dep in definition["deps"] if dep.startswith(("pipelines/", "trainer/", "datasets/"))}


def covered(path: str, declarations: set[str]) -> bool:
    return any(path == declaration or path.startswith(f"{declaration}/") for declaration in declarations)


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_declares_what_it_imports(stage):
    missing = {path for path in closure(ROOT / f"pipelines/{stage}.py") if not covered(path, declared(stage))}
    assert not {path for path in missing if not path.startswith((*PLUGINS, *POLICY_LOADER.get(stage, ())))}


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_declares_no_code_that_it_cannot_import(stage):
    used = closure(ROOT / f"pipelines/{stage}.py")
    for plugin in PLUGINS:
        used |= {p for f in (ROOT / plugin).glob("*.py") if any("${item." in d for d in declared(stage)) for p in closure(f)}
    for declaration in declared(stage):
        if "${" not in declaration and declaration != MODULES:
            assert any(covered(path, {declaration}) for path in used), f"{stage} declares {declaration}, which it does not import"


@pytest.mark.parametrize("plugin", [file for folder in (*PLUGINS, MODULES) for file in (ROOT / folder).glob("[!_]*.py")])
def test_what_a_plugin_imports_is_declared_by_its_stages(plugin):
    stages = ["collect"] if "builders" in plugin.parts else ["train", "evaluate"]
    for stage in stages:
        own = plugin.relative_to(ROOT).as_posix()
        missing = {path for path in closure(plugin) - {own} if not covered(path, declared(stage))}
        assert not missing, f"{own} imports {missing}; declare it in the stage {stage}"


def test_the_stages_that_make_networks_depend_on_the_users_modules():
    assert {stage for stage in STAGES if MODULES in declared(stage)} == {"train", "evaluate"}


def names(values) -> set[str]:
    if isinstance(values, dict):
        return set(values) | {name for value in values.values() for name in names(value)}
    return {name for value in values for name in names(value)} if isinstance(values, list) else set()


def test_no_parameter_has_a_name_that_dvc_drops_from_its_run_cache():
    assert not names(YAML(typ="safe").load((ROOT / "params.yaml").read_text())) & {"size", "nfiles"}
