"""Prints the lowest versions that a pyproject.toml names for running and testing, one `name==version` a line."""

from __future__ import annotations

import sys
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement  # in every virtual environment, whatever its age

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

COMPANIONS = ("pyparsing<3.3",)  # newer ones warn of what the lowest matplotlib calls
NOT_RUN = (  # tools, what the tests do without, and what only slow tests need
    *("mypy", "ruff", "cupy", "nvidia"),
    *("playwright", "axe-playwright", "nbclient", "ipykernel"),
)


def oldest(project: dict[str, object]) -> list[str]:
    """The pins of the direct dependencies and of the extra `test`."""
    extras = project["optional-dependencies"]
    pins: dict[str, str] = {}
    for text in [*project["dependencies"], *extras["test"]]:
        requirement = Requirement(text)
        if requirement.name.startswith(NOT_RUN) or (requirement.marker and not requirement.marker.evaluate()):
            continue
        floors = [s.version for s in requirement.specifier if s.operator in (">=", "==")]
        if len(floors) != 1:
            raise SystemExit(f"{text!r} must name one lowest version, such as {requirement.name}>=1.0")
        pin = f"{requirement.name}=={floors[0]}"
        if pins.setdefault(requirement.name, pin) != pin:
            raise SystemExit(f"{requirement.name} has two lowest versions: {pins[requirement.name]} and {pin}")
    return [*pins.values(), *COMPANIONS]


if __name__ == "__main__":
    with Path(sys.argv[1]).open("rb") as file:
        print("\n".join(oldest(tomllib.load(file)["project"])))
