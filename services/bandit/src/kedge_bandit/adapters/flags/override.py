"""Restrict this replica from outside the database: by environment, by a file, by a flag provider. None can loosen."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kedge_bandit.domain.identifiers import PolicyName, TenantId
from kedge_bandit.domain.mode import Mode, most_restrictive


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

    def _machine(self) -> dict[str, Mode]:
        """Read file or environment. A file that cannot be read or understood restricts: somebody meant to stop it."""
        try:
            text = self.file.read_text(encoding="ascii").strip().upper()
        except FileNotFoundError:
            return {"environment": self.environment}
        except (OSError, UnicodeDecodeError):
            return {"file": Mode.FROZEN}
        return {"file": Mode(text) if text in Mode.__members__ else Mode.FROZEN}
