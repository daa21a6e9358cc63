"""Restrict this replica from outside the database: by environment, by a file, by a flag provider. None can loosen."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.mode import Mode, most_restrictive

_SHOWN: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Everything from outside that bears on a policy.

    Attributes:
        environment: a mode given at start.
        file: holds one mode; there or not, at any time. Where it is there it takes the environment's place.
        flags: what a flag provider says of a policy; None without one.
    """

    environment: Mode
    file: Path
    flags: Callable[[TenantId, PolicyName], Mode] | None = None

    def __call__(self, tenant: TenantId, policy: PolicyName) -> Mode:
        """Read the most restrictive of them for a policy."""
        return most_restrictive(self.levels(tenant, policy).values())

    def levels(self, tenant: TenantId | None, policy: PolicyName | None) -> dict[str, Mode]:
        """Read each by its name; flags are asked where a policy is named."""
        found = self._machine()
        if self.flags is not None and tenant is not None and policy is not None:
            found["flags"] = self.flags(tenant, policy)
        return found

    def complaint(self) -> str:
        """Say that the file is there and holds no mode; empty where it does, or is not there."""
        text = self._text()
        if text is None or text in Mode.__members__:
            return ""
        said = f"holds {text[:_SHOWN]!r}, which is no mode" if text else "cannot be read, or is empty"
        modes = ", ".join(Mode)
        return f"the file {self.file.name} {said}, so {Mode.FROZEN} is served: write one of {modes}, or remove it"

    def _machine(self) -> dict[str, Mode]:
        """Read file or environment. A file that cannot be read or understood restricts: somebody meant to stop it."""
        text = self._text()
        if text is None:
            return {"environment": self.environment}
        return {"file": Mode(text) if text in Mode.__members__ else Mode.FROZEN}

    def _text(self) -> str | None:
        """Read the file; empty where it cannot be read, None where there is none."""
        try:
            return self.file.read_text(encoding="ascii").strip().upper()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError):
            return ""
