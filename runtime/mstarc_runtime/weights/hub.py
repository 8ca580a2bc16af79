"""A Hugging Face repository as a folder of safetensors.

`owner/name@revision` → the hub client's own cache. Only asked for when a spec names a repository;
pickled checkpoints are never fetched.
"""

from pathlib import Path
from typing import Final

from mstarc_runtime.errors import RuntimeFailure
from mstarc_runtime.weights.progress import Progress
from mstarc_runtime.weights.sources import HubRepository

_WANTED: Final = ("*.safetensors", "*.json", "*.txt", "*.model", "*.jinja")


def fetch_repository(source: HubRepository, progress: Progress) -> Path:
    """The folder of a repository's snapshot. Fails with MS9102 or MS9108."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError as error:
        raise RuntimeFailure(
            "MS9108",
            f"`{source.repo}` is on Hugging Face, and `huggingface_hub` is not installed",
            helps=["`pip install huggingface_hub`"],
        ) from error
    try:
        with progress.step(f"fetching {source.repo} from Hugging Face", None):
            folder = snapshot_download(
                source.repo, revision=source.revision, allow_patterns=list(_WANTED)
            )
    # The client raises OSError for a network that is not there, and its own types for the rest.
    except (OSError, ValueError, HfHubHTTPError, LocalEntryNotFoundError) as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise RuntimeFailure(
            "MS9102",
            f"`{source.repo}` could not be fetched from Hugging Face",
            notes=[f"the hub client says: {said[0]}"],
            helps=[
                "connect to the network, or log in if the repository is gated",
                'or name a local folder: `weights "./folder"`',
                "or try without a checkpoint: `--weights NODE=random`, for each node",
            ],
        ) from error
    return Path(folder)
