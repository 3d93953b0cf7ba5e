"""A convolutional network that learns real handwritten digits, data-parallel.

    umiak launch --nproc_per_node 2 examples/05-digits/train.py

Two rounds of convolution, ReLU and pooling with batch normalization between them, then one layer for the ten digits.
"""

import argparse
import sys

import digits
import paddle
import paddle.distributed as dist
import together
from paddle import nn


def main() -> None:
    args = arguments()
    dist.init_parallel_env()
    rank, world = dist.get_rank(), dist.get_world_size()
    paddle.seed(7)
    network = convolutional()
    model = paddle.DataParallel(network)
    optimizer = paddle.optimizer.Adam(args.learning_rate, parameters=model.parameters())
    (images, labels), test = digits.load(strangers=args.strangers)
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
    flags.add_argument("--epochs", type=int, default=6)
    flags.add_argument("--batch", type=int, default=64, help="images of a step, divided among the workers")
    flags.add_argument("--learning_rate", type=float, default=0.003)
    flags.add_argument("--strangers", action="store_true", help="test with the last images, by other hands")
    flags.add_argument("--at_least", type=float, default=0.0, help="fail if the accuracy is below this in the end")
    return flags.parse_args()


def convolutional() -> nn.Layer:
    return nn.Sequential(
        nn.Conv2D(1, 20, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2D(2),
        nn.BatchNorm2D(20),
        nn.Conv2D(20, 50, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2D(2),
        nn.Flatten(),
        nn.Linear(50 * 2 * 2, 10),
    )


if __name__ == "__main__":
    main()
