"""What the environment says about the model that `infer` plays, under the names that OpenEnv's examples use."""

import os

from kedge_trainer.adapters.language_model import ChatModel

VARIABLES = {"API_BASE_URL": "http://127.0.0.1:8000/v1", "MODEL_NAME": "default", "HF_TOKEN": ""}
"""Defaults by name."""


def model_from_environment() -> ChatModel:
    """Read the model's address, name and token."""
    url, name, token = (os.environ.get(variable, default) for variable, default in VARIABLES.items())
    return ChatModel(url=url, name=name, token=token)
