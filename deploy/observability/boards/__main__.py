"""Write every board as the JSON that Grafana imports: `python -m deploy.observability.boards`."""

from pathlib import Path

from deploy.observability.boards import BOARDS
from deploy.observability.boards.parts import to_json

FOLDER = Path(__file__).resolve().parents[1] / "grafana"


def main() -> None:
    """Rewrite the folder's files."""
    for name, board in BOARDS.items():
        (FOLDER / f"{name}.json").write_text(to_json(board()), encoding="utf-8")


if __name__ == "__main__":
    main()
