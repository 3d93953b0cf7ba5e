"""What a key and a gradient lead to, in numpy: the definition that the native core is compared with, bit for bit. A decider.

Mixing of keys, first rows, clipping, optimizers. All numbers are IEEE float32 unless a line says otherwise,
operations are done one after the other in the order written, and sums run over the columns from the first to the last.
`tests.support.oracle.tables` makes tables of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Settings = Mapping[str, Any]

_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def mix(key: int) -> int:
    """Spreads a key's bits over all 64. No two keys give the same."""
    z = (key + _GOLDEN) & _WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _WORD
    return z ^ (z >> 31)


def shard_of(key: int, shards: int) -> int:
    """The virtual shard of a key: the top bits of its mixture. `shards` is a power of two."""
    return mix(key) * shards >> 64


def server_of(shard: int, shards: int, servers: int) -> int:
    """The server of a virtual shard: contiguous, nearly equal ranges."""
    return shard * servers // shards


def draw(base: int, n: int) -> int:
    """The n-th random word that belongs to a base."""
    return mix((base + n * _GOLDEN) & _WORD)


def unit(word: int) -> np.float32:
    """A word as a number in [0, 1): its top 24 bits, exactly."""
    number: np.float32 = np.float32((word >> 40) / 16_777_216)
    return number


def first_row(init: Settings, seed: int, key: int, dim: int) -> Floats:
    """What a new row holds."""
    base = mix(key ^ mix(seed))
    match init["kind"]:
        case "constant":
            return np.full(dim, init["value"], np.float32)
        case "uniform":
            low, high = np.float32(init["low"]), np.float32(init["high"])
            return np.array([low + unit(draw(base, column)) * (high - low) for column in range(dim)], np.float32)
        case "normal":
            mean, deviation = np.float32(init["mean"]), np.float32(init["deviation"])
            return np.array([mean + _standard(base, column) * deviation for column in range(dim)], np.float32)
        case other:
            raise ValueError(f"an initial row of kind {other!r}")


def _standard(base: int, column: int) -> np.float32:
    """The sum of twelve numbers of 16 bits, moved and scaled to mean 0 and deviation 1."""
    words = [draw(base, 3 * column + n) for n in range(3)]
    total = sum((word >> (16 * part)) & 0xFFFF for word in words for part in range(4))
    number: np.float32 = np.float32((total - 6 * 65535) / 65536)
    return number


def clip_gradient(clip: Settings, gradient: Floats) -> Floats:
    """Each element within plus and minus `value`; then the whole scaled down to the length `norm`."""
    if clip.get("value") is not None:
        gradient = within(gradient, clip["value"])
    if clip.get("norm") is not None:
        most = float(np.float32(clip["norm"]))
        norm = math.sqrt(squares(gradient))
        if norm > most:
            gradient = gradient * np.float32(most / norm)
    return gradient


def clip_together(most: float, gradients: list[Floats]) -> list[Floats]:
    """Gradients of one step, scaled down together to the length `most`. Their squares are added up array by array."""
    norm = math.sqrt(sum(squares(gradient.reshape(-1)) for gradient in gradients))
    limit = float(np.float32(most))
    return [gradient * np.float32(limit / norm) for gradient in gradients] if norm > limit else gradients


def clip_weights(clip: Settings, weights: Floats) -> Floats:
    """Each weight within plus and minus `weight`."""
    return weights if clip.get("weight") is None else within(weights, clip["weight"])


def within(numbers: Floats, most: float) -> Floats:
    """Each number within plus and minus `most`."""
    limit = np.float32(most)
    below = np.where(numbers > limit, limit, numbers)
    return np.where(below < -limit, -limit, below)


def squares(numbers: Floats) -> float:
    """The sum of squares in float64."""
    total = 0.0
    for number in numbers.tolist():
        total += number * number
    return total


def faded(numbers: Floats) -> Floats:
    """Numbers that fade in every step: zero once they are below the smallest normal one."""
    return np.where(np.abs(numbers) < np.finfo(np.float32).tiny, np.float32(0.0), numbers)


class Rule:
    """An optimizer in use: its settings, the learning rate now, and what belongs to a table rather than to a row.

    Kept beside a row of d weights, in this order: momentum d velocities; adagrad and adagrad_scaled d sums of squares;
    adagrad_shared one sum; adam d means and d means of squares; adam_row these and two powers of beta; ftrl d linear
    terms and d sums of squares; rmsprop d means of squares, then d velocities if it has momentum and d means if it is
    centered; sgd and sum nothing.
    """

    def __init__(self, settings: Settings) -> None:
        self.name: str = settings["rule"]
        self.learning_rate = np.float32(settings.get("learning_rate", 1.0))
        self._numbers = {name: np.float32(n) for name, n in settings.items() if isinstance(n, (int, float))}
        self._nesterov = bool(settings.get("nesterov", False))
        self._centered = bool(settings.get("centered", False))
        self._ahead = bool(settings.get("ahead", False))
        self.powers = [1.0, 1.0]
        """Running products of Adam's betas."""

    @property
    def scales_by_show(self) -> bool:
        """Whether an accessor's show_scale holds for this rule."""
        return self.name in ("adagrad", "adagrad_scaled", "adagrad_shared")

    def state_width(self, dim: int) -> int:
        """Numbers kept beside a row."""
        wide = {"momentum": 1, "adagrad": 1, "adagrad_scaled": 1, "adam": 2, "adam_row": 2, "ftrl": 2}
        more = {"adagrad_shared": 1, "adam_row": 2}
        if self.name == "rmsprop":
            return dim * (1 + bool(self._numbers.get("momentum")) + self._centered)
        return wide.get(self.name, 0) * dim + more.get(self.name, 0)

    def first_state(self, dim: int) -> Floats:
        """What stands beside a new row."""
        state = np.zeros(self.state_width(dim), np.float32)
        if self.name == "adagrad":
            state[:] = self._numbers.get("initial", 0.0)
        if self.name == "adam_row":
            state[-2:] = [self._numbers["beta1"], self._numbers["beta2"]]
        return state

    @property
    def has_row_state(self) -> bool:
        """Whether some of what is kept belongs to a row as a whole, and not to one of its weights."""
        return self.name in ("adagrad_shared", "adam_row")

    def begin(self, powers: list[float] | None = None) -> tuple[np.float32, np.float32]:
        """Begins a push: counts it and returns the rate and the epsilon that hold for it. ``powers``: of a part that counts for itself."""
        powers = self.powers if powers is None else powers
        epsilon = self._numbers.get("epsilon", np.float32(0.0))
        if self.name != "adam":
            return self.learning_rate, epsilon
        # In float64: the corrections of both means, folded into the rate and into epsilon.
        powers[0] *= float(self._numbers["beta1"])
        powers[1] *= float(self._numbers["beta2"])
        more = [float(self._numbers[name]) if self._ahead else 1.0 for name in ("beta1", "beta2")]
        root = math.sqrt(1.0 - powers[1] * more[1])
        rate = float(self.learning_rate) * root / (1.0 - powers[0] * more[0])
        return np.float32(rate), np.float32(float(epsilon) * root)

    def idle(self, step: tuple[np.float32, np.float32]) -> tuple[np.float32, np.float32]:
        """The same push for rows without a gradient: Paddle's Adam for gradients of some rows does not correct their epsilon."""
        return (step[0], self._numbers["epsilon"]) if self.name == "adam" and self._ahead else step

    def apply(
        self,
        step: tuple[np.float32, np.float32],
        clip: Settings,
        w: Floats,
        s: Floats,
        g: Floats,
        decay: Settings | None = None,
    ) -> None:
        """Changes weights `w` and state `s` in place by the gradient `g`."""
        with np.errstate(all="ignore"):
            self._apply(*step, w, s, self._decayed(decay or {}, w, clip_gradient(clip, g)))
            w[:] = clip_weights(clip, w)

    def _decayed(self, decay: Settings, w: Floats, g: Floats) -> Floats:
        """The gradient with what pulls weights to zero; weights that decay by themselves do so in place."""
        l1, l2, decoupled = (np.float32(decay.get(name, 0.0)) for name in ("l1", "l2", "decoupled"))
        if l2:
            g = g + l2 * w
        if l1:
            g = g + np.where(w > 0, l1, np.where(w < 0, -l1, np.float32(0)))
        if decoupled:
            w -= (self.learning_rate * decoupled) * w
        return g

    def _apply(self, lr: np.float32, epsilon: np.float32, w: Floats, s: Floats, g: Floats) -> None:
        number = self._numbers
        match self.name:
            case "sgd":
                w -= lr * g
            case "sum":
                w += g
            case "momentum":
                s[:] = faded(number["momentum"] * s + g)
                w -= lr * (g + number["momentum"] * s) if self._nesterov else lr * s
            case "adagrad":
                s += g * g
                w -= lr * g / (np.sqrt(s) + epsilon)
            case "adagrad_scaled" | "adagrad_shared":
                g0 = number["initial_g2sum"]
                w -= lr * g * np.sqrt(g0 / (g0 + s))
                s += g * g if self.name == "adagrad_scaled" else np.float32(squares(g) / len(g))
            case "adam":
                self._adam(lr, epsilon, w, s, g)
            case "adam_row":
                one = np.float32(1.0)
                rate = lr * np.sqrt(one - s[-1]) / (one - s[-2])
                self._adam(rate, epsilon, w, s[:-2], g)
                s[-2:] = faded(s[-2:] * np.array([number["beta1"], number["beta2"]]))
            case "ftrl":
                self._ftrl(lr, w, s, g)
            case "rmsprop":
                self._rmsprop(lr, epsilon, w, s, g)
            case other:
                raise ValueError(f"a rule {other!r}")

    def _adam(self, rate: np.float32, epsilon: np.float32, w: Floats, s: Floats, g: Floats) -> None:
        beta1, beta2, one = self._numbers["beta1"], self._numbers["beta2"], np.float32(1.0)
        m, v = s[: len(w)], s[len(w) :]
        m[:] = faded(beta1 * m + (one - beta1) * g)
        v[:] = faded(beta2 * v + (one - beta2) * (g * g))
        w -= rate * (m / (np.sqrt(v) + epsilon))

    def _rmsprop(self, lr: np.float32, epsilon: np.float32, w: Floats, s: Floats, g: Floats) -> None:
        rho, momentum, one = self._numbers["rho"], self._numbers.get("momentum", np.float32(0.0)), np.float32(1.0)
        dim = len(w)
        mean_of_squares, velocity, mean = s[:dim], s[dim : 2 * dim], s[len(s) - dim :]
        mean_of_squares[:] = faded(rho * mean_of_squares + (one - rho) * (g * g))
        spread = mean_of_squares
        if self._centered:
            mean[:] = faded(rho * mean + (one - rho) * g)
            left = mean_of_squares - mean * mean
            spread = np.where(left > 0, left, np.float32(0.0))
        change = lr * g / np.sqrt(spread + epsilon)
        if momentum:
            change = faded(momentum * velocity + change)
            velocity[:] = change
        w -= change

    def _ftrl(self, lr: np.float32, w: Floats, s: Floats, g: Floats) -> None:
        number = self._numbers
        z, n = s[: len(w)], s[len(w) :]
        more = n + g * g
        z += g - (np.sqrt(more) - np.sqrt(n)) / lr * w
        n[:] = more
        over = np.where(z < 0, z + number["l1"], z - number["l1"])
        moved = -over / ((number.get("beta", np.float32(1.0)) + np.sqrt(more)) / lr + number["l2"])
        w[:] = np.where(np.abs(z) <= number["l1"], np.float32(0.0), moved)
