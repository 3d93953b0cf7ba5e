"""What pip calls packages that Python calls otherwise. A decider.

command(("pandas", "sklearn"))  ->  "python -m pip install pandas scikit-learn"
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

PIP_NAMES = {
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "faiss": "faiss-cpu",
    "google": "protobuf",
    "PIL": "pillow",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
"""What pip calls a package that Python calls otherwise."""


def command(names: Iterable[str]) -> str:
    """What installs these packages, all at once."""
    return f"python -m pip install {' '.join(dict.fromkeys(PIP_NAMES.get(name, name) for name in names))}"
