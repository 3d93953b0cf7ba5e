"""What `make demo` leaves to look at: `demo/report.html`, with both curves and everything that was said. And the page that shows it while it trains.

The page is `umiak dashboard`; it is opened only for somebody at a terminal. The report needs nothing but a browser.
"""

from __future__ import annotations

import html
import select
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

WIDTH, HEIGHT, LEFT, BOTTOM = 760, 300, 60, 40
COLOURS = {"with kills": "#b3480a", "undisturbed": "#0b57b0"}
ADDRESS_WITHIN_S = 30.0
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #16202b; background: #fff; }
pre { background: #f5f7f9; padding: 1rem; overflow: auto; font-size: .85rem; } svg { max-width: 100%; height: auto; }
@media (prefers-color-scheme: dark) { body { color: #e8edf2; background: #11161c; } pre { background: #1a2129; } svg { background: #fff; } }
"""

Points = Sequence[tuple[float, float]]


class LivePage:
    """`umiak dashboard` over a directory, for as long as the demo runs; nothing if nobody sits at a terminal."""

    def __init__(self, umiak: Sequence[str], directory: Path, say: Callable[[str], None]) -> None:
        self._command = [*umiak, "dashboard", "--no_submitted", str(directory)]
        self._say = say
        self._process: subprocess.Popen[bytes] | None = None

    def open(self) -> None:
        """Say its address, and open a browser if there is a screen for one. The demo goes on without it as well."""
        if not sys.stdout.isatty():
            return
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], ADDRESS_WITHIN_S)
        address = self._process.stdout.readline().decode().strip() if ready else ""
        if not address:
            self.close()
            return
        self._say("watch it in a browser, until the demo ends:")
        print(address, flush=True)  # never wrapped: it is to be clicked on

    def close(self) -> None:
        """End it, and wait."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None


def write(
    path: Path, curves: Mapping[str, Points], kills: Sequence[tuple[float, str]], best: float, said: Sequence[str]
) -> None:
    """The report, in one file."""
    title = "umiak: a run that lost a server and a trainer"
    body = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style></head><body>',
        f"<h1>{title}</h1>",
        drawing(curves, kills, best) if any(len(points) > 1 for points in curves.values()) else "",
        "<h2>What was said</h2>",
        f"<pre>{html.escape(chr(10).join(said))}</pre>",
        "</body></html>",
        "",
    ]
    path.write_text("\n".join(body), encoding="utf-8")


def drawing(curves: Mapping[str, Points], kills: Sequence[tuple[float, str]], best: float) -> str:
    """The curves over the part of the steps that is done, below the best that the data allow. What came before the first report is left out."""
    shown = {name: points[1:] for name, points in curves.items()}
    low = min(score for points in shown.values() for _, score in points)
    low -= (best - low) * 0.05

    def across(done: float) -> float:
        return LEFT + (WIDTH - LEFT - 20) * done

    def up(score: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - 20) * (score - low) / ((best - low) or 1)

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="AUC on unseen samples, with kills and without" font-family="sans-serif" font-size="13">',
        f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{up(best):.1f}" y2="{up(best):.1f}" stroke="#51606f" stroke-dasharray="6 4"/>',
        f'<text x="4" y="{up(best) + 4:.1f}">{best:.4f}</text><text x="4" y="{up(low) + 4:.1f}">{low:.4f}</text>',
        f'<text x="{LEFT}" y="14">AUC on unseen samples; dashes: the best that the data allow</text>',
    ]
    for row, (name, points) in enumerate(shown.items()):
        path = " ".join(f"{across(done):.1f},{up(score):.1f}" for done, score in points)
        width, colour = 5 - 3 * row, COLOURS.get(name, "#17693a")
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>')
        parts.append(f'<text x="{WIDTH - 130}" y="{HEIGHT - BOTTOM - 30 + 18 * row}" fill="{colour}">{name}</text>')
    for done, kind in kills:
        at = across(done)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="20" y2="{HEIGHT - BOTTOM}" stroke="#b3201a"/>')
        parts.append(
            f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#b3201a">{kind} killed</text>'
        )
    return "\n".join([*parts, "</svg>"])
