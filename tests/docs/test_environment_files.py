"""pyproject.toml, constraints.txt and environment.yml agree; the Dockerfile copies what exists."""

from pathlib import Path
import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
import pytest
import yaml

NAMED_BY_THE_USER = {"torch", "transformers", "jupyterlab", "ipywidgets", "plotly", "numpy", "scipy"}


@pytest.fixture(scope="module")
def project(root: Path) -> dict:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def environment(root: Path) -> dict:
    return yaml.safe_load((root / "environment.yml").read_text(encoding="utf-8"))


def pip_section(environment: dict) -> list[str]:
    (section,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    return section


def pins(root: Path) -> dict[str, str]:
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    wanted = [Requirement(line) for line in lines if line and not line.startswith("#")]
    versions = {}
    for requirement in wanted:
        (specifier,) = requirement.specifier
        assert specifier.operator == "==", f"{requirement} is not an exact pin"
        assert requirement.name not in versions, f"{requirement.name} is pinned twice"
        versions[canonicalize_name(requirement.name)] = specifier.version
    return versions


def test_environment_yml_lists_what_the_labs_need(project: dict, environment: dict) -> None:
    listed = {entry for entry in pip_section(environment) if not entry.startswith("--")}
    assert listed == {*project["dependencies"], *project["optional-dependencies"]["labs"]}
    assert {Requirement(entry).name for entry in listed} >= NAMED_BY_THE_USER


def test_environment_yml_is_conda_forge_python_with_a_pip_section(project: dict, environment: dict) -> None:
    assert environment["channels"] == ["conda-forge"]
    plain = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    assert plain == [f"python{project['requires-python']}", "pip"]
    options = [entry for entry in pip_section(environment) if entry.startswith("--")]
    assert options == ["--constraint constraints.txt", "--editable ."]


def test_every_direct_dependency_is_pinned_inside_its_range(root: Path, project: dict) -> None:
    versions = pins(root)
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    for requirement in map(Requirement, (entry for group in groups for entry in group)):
        version = versions.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} has no pin in constraints.txt"
        assert requirement.specifier.contains(version), f"{requirement} does not admit the pinned {version}"


def test_the_labs_extra_contains_the_models_extra(project: dict) -> None:
    extras = project["optional-dependencies"]
    assert set(extras["models"]) <= set(extras["labs"])
    assert {"core", "labs", "gpu"} <= set(extras)


def test_the_core_depends_on_four_packages(project: dict) -> None:
    assert {Requirement(entry).name for entry in project["dependencies"]} == {"torch", "numpy", "scipy", "jaxtyping"}


def test_the_dockerfile_copies_what_is_there_and_runs_without_root(root: Path) -> None:
    lines = (root / "Dockerfile").read_text(encoding="utf-8").splitlines()
    sources = [name for line in lines if line.startswith("COPY") for name in line.split()[1:-1] if name[0] != "-"]
    assert {"specdec_core", "kernels", "labs", "notebooks", "exercises"} <= set(sources)
    assert [name for name in sources if not (root / name).exists()] == []
    assert any(re.fullmatch(r"USER (?!root)\w+", line) for line in lines)
    assert "EXPOSE 8888" in lines
