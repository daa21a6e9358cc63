"""Keep the content of arms by its hash: content never changes, so what was read once is never read again."""

from collections.abc import Awaitable, Callable, Iterable

from kedge.bandit.v1.decision_service_pb2 import GetArmRequest, GetArmResponse
from kedge_client.action import Arm, sha256_hex
from kedge_client.errors import ArmContentMismatch


class ArmCache:
    """Read arms through, and believe only content that has the hash it was asked for by.

    Args:
        parent: `tenants/{tenant}`.
        known: arms that need no asking: those of the local baselines.
        read: one GetArm with its retries.
    """

    def __init__(
        self, *, parent: str, known: Iterable[Arm], read: Callable[[GetArmRequest], Awaitable[GetArmResponse]]
    ) -> None:
        self._parent = parent
        self._arms = {arm.ref.content_hash: arm for arm in known}
        self._read = read

    async def get(self, content_hash: str) -> Arm:
        """Find an arm by the full SHA-256 of its content.

        Raises:
            ValueError: the hash is empty.
            CallFailed: there is no such arm, or no answer.
            ArmContentMismatch: the content that came has another hash.
        """
        if not content_hash:
            raise ValueError("content_hash must not be empty")
        if content_hash in self._arms:
            return self._arms[content_hash]
        response = await self._read(GetArmRequest(parent=self._parent, content_hash=content_hash))
        actual_hash = sha256_hex(response.arm.content)
        if actual_hash != content_hash:
            raise ArmContentMismatch(expected_hash=content_hash, actual_hash=actual_hash)
        arm = Arm(response.arm.name, response.arm.content, tuple(response.arm.template_variables))
        return self._arms.setdefault(content_hash, arm)
