"""A small ResNet on the digits of example 05, trained by all workers together.

    umiak launch --nproc_per_node 2 examples/07-resnet/train.py

Depth 8, 14, 20, ...: three groups of residual blocks with 16, 32 and 64 channels, the form that ResNets have for small images.
"""

import argparse
import sys
from pathlib import Path

import paddle
import paddle.distributed as dist
from paddle import nn

sys.path.append(str(Path(__file__).resolve().parents[1] / "05-digits"))
import digits
import together

DEPTHS = (8, 14, 20, 32)


def main() -> None:
    args = arguments()
    dist.init_parallel_env()
    rank, world = dist.get_rank(), dist.get_world_size()
    paddle.seed(7)
    network = ResNet(args.depth)
    model = paddle.DataParallel(network)
    (images, labels), test = digits.load()
    steps = args.epochs * sum(1 for _ in digits.batches(len(labels), args.batch, rank, world, seed=0))
    rate = paddle.optimizer.lr.CosineAnnealingDecay(args.learning_rate, T_max=steps)
    optimizer = paddle.optimizer.Momentum(rate, parameters=model.parameters(), weight_decay=5e-4, use_nesterov=True)
    accuracy, read = 0.0, 0
    for epoch in range(1, args.epochs + 1):
        model.train()
        losses = 0.0
        for size, mine in digits.batches(len(labels), args.batch, rank, world, seed=epoch):
            answers = model(paddle.to_tensor(images[mine]))
            loss = nn.functional.cross_entropy(answers, paddle.to_tensor(labels[mine]), reduction="sum")
            (loss * (world / size)).backward()  # DataParallel averages over workers: this is the mean over the step
            optimizer.step()
            optimizer.clear_grad()
            rate.step()
            losses += float(loss)
            read += len(mine)
        together.share_statistics(network)
        loss, accuracy = together.total(losses) / len(labels), together.evaluate(network, *test, rank, world)
        if rank == 0:
            print(f"epoch {epoch}/{args.epochs}  loss {loss:.4f}  accuracy {accuracy:.4f}", flush=True)
    print(f"worker {rank} of {world}: read {read} of {together.total(read):.0f} images", flush=True)
    if accuracy < args.at_least:
        sys.exit(f"accuracy {accuracy:.4f} is below {args.at_least}")


def arguments() -> argparse.Namespace:
    flags = argparse.ArgumentParser()
    flags.add_argument("--depth", type=int, default=8, choices=DEPTHS)
    flags.add_argument("--epochs", type=int, default=8)
    flags.add_argument("--batch", type=int, default=64, help="images of a step, divided among the workers")
    flags.add_argument("--learning_rate", type=float, default=0.1)
    flags.add_argument("--at_least", type=float, default=0.0, help="fail if the accuracy is below this in the end")
    return flags.parse_args()


class ResNet(nn.Layer):
    """A convolution, three groups of blocks, the mean over the image, and a layer for the classes."""

    def __init__(self, depth: int, classes: int = 10):
        super().__init__()
        blocks, before = [], 16
        for channels in (16, 32, 64):
            for number in range((depth - 2) // 6):
                halves = channels > 16 and number == 0
                blocks.append(Block(before, channels, stride=2 if halves else 1))
                before = channels
        self.layers = nn.Sequential(*convolution(1, 16), nn.ReLU(), *blocks, nn.AdaptiveAvgPool2D(1), nn.Flatten())
        self.classes = nn.Linear(before, classes)

    def forward(self, images):
        return self.classes(self.layers(images))


class Block(nn.Layer):
    """Two convolutions beside a way around them, which is a convolution itself where the shape changes."""

    def __init__(self, before: int, channels: int, stride: int):
        super().__init__()
        self.through = nn.Sequential(
            *convolution(before, channels, stride=stride), nn.ReLU(), *convolution(channels, channels)
        )
        same = before == channels and stride == 1
        self.around = nn.Identity() if same else nn.Sequential(*convolution(before, channels, 1, stride=stride))

    def forward(self, x):
        return nn.functional.relu(self.through(x) + self.around(x))


def convolution(before: int, channels: int, size: int = 3, stride: int = 1):
    """A convolution and its normalization."""
    return (
        nn.Conv2D(before, channels, size, stride=stride, padding=size // 2, bias_attr=False),
        nn.BatchNorm2D(channels),
    )


if __name__ == "__main__":
    main()
