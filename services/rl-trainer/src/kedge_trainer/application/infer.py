"""Let a language model play, from its own transcript and nothing else."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kedge_trainer.application.ports import Ground

Message = Mapping[str, str]
Model = Callable[[Sequence[Message]], str]
"""Answer a conversation in the form of OpenAI's chat messages."""

SUCCESS = 0.5
"""Least grade that counts as success in the last line, as in the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One step of the transcript.

    Attributes:
        error: what was wrong with the action: its veto, why it did nothing, or both.
    """

    number: int
    action: Mapping[str, object]
    reward: float
    over: bool
    error: str | None


def infer(ground: Ground, task: str, seed: int, *, model: Model, watch: Callable[[Move], None]) -> Mapping[str, float]:
    """Play one episode; every action is the model's own, and one that cannot be read is refused by the environment.

    Raises:
        ModelFailed: the model gave no answer.
    """
    episode = ground.start(task, seed)
    seen = episode.observe()
    talk: list[Message] = [{"role": "system", "content": ground.instructions(task)}]
    number, over = 0, False
    while not over:
        talk.append({"role": "user", "content": ground.render(seen)})
        answer = model(talk)
        talk.append({"role": "assistant", "content": answer})
        action = ground.parse(answer)
        turn = episode.step(action)
        seen, number, over = episode.observe(), number + 1, turn.terminated or turn.truncated
        wrong = ": ".join(str(part) for part in (turn.veto, seen[ground.REFUSAL]) if part)
        watch(Move(number=number, action=action, reward=turn.reward, over=over, error=wrong or None))
    return episode.metrics()
