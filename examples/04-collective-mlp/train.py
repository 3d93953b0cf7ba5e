"""An MLP that every worker trains with its own part of the samples: collective training.

    umiak launch --nproc_per_node 2 examples/04-collective-mlp/train.py

32 numbers, two hidden layers of 1280, two classes: the network with which Paddle's guides show training on a cloud. Their
labels are drawn by chance; here a hidden plane decides, so that there is something to learn.
"""

import argparse
import sys

import numpy as np
import paddle
import paddle.distributed as dist

FEATURES, HIDDEN, CLASSES = 32, 1280, 2


def main() -> None:
    args = arguments()
    dist.init_parallel_env()
    rank, world = dist.get_rank(), dist.get_world_size()
    paddle.seed(7)
    model = paddle.DataParallel(mlp())
    optimizer = paddle.optimizer.SGD(args.learning_rate, parameters=model.parameters())
    x, y = samples(args.samples, seed=1)
    unseen = samples(2000, seed=2)
    accuracy, read = 0.0, 0
    for epoch in range(1, args.epochs + 1):
        losses = 0.0
        order = np.random.default_rng(epoch).permutation(len(x))  # the same on every worker
        for batch in np.array_split(order, max(1, len(x) // args.batch)):
            mine = batch[rank::world]
            # DataParallel averages over workers: so this is the batch's mean loss, also where parts are not of one size.
            loss = cross_entropy(model, x[mine], y[mine]) * (world / len(batch))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses += float(loss) * len(batch) / world
            read += len(mine)
        loss, accuracy = total(losses) / len(x), evaluate(model, *unseen, rank, world)
        if rank == 0:
            print(f"epoch {epoch}/{args.epochs}  loss {loss:.4f}  accuracy {accuracy:.4f}", flush=True)
    print(f"worker {rank} of {world}: read {read} of {total(read):.0f} samples", flush=True)
    if args.save and rank == 0:
        paddle.save(model.state_dict(), args.save)
    if accuracy < args.at_least:
        sys.exit(f"accuracy {accuracy:.4f} is below {args.at_least}")


def arguments() -> argparse.Namespace:
    flags = argparse.ArgumentParser()
    flags.add_argument("--epochs", type=int, default=5)
    flags.add_argument("--samples", type=int, default=6400, help="in an epoch, divided among the workers")
    flags.add_argument("--batch", type=int, default=128, help="samples of a step, divided among the workers")
    flags.add_argument("--learning_rate", type=float, default=0.05)
    flags.add_argument("--save", help="a file for the weights, which worker 0 writes")
    flags.add_argument("--at_least", type=float, default=0.0, help="fail if the accuracy is below this in the end")
    return flags.parse_args()


def mlp() -> paddle.nn.Layer:
    return paddle.nn.Sequential(
        paddle.nn.Linear(FEATURES, HIDDEN),
        paddle.nn.Tanh(),
        paddle.nn.Linear(HIDDEN, HIDDEN),
        paddle.nn.Tanh(),
        paddle.nn.Linear(HIDDEN, CLASSES),
    )


def samples(count: int, seed: int):
    """Numbers from -1 to 1, and on which side of a hidden plane they are."""
    plane = np.random.default_rng(0).normal(size=FEATURES)
    x = np.random.default_rng(seed).uniform(-1, 1, size=(count, FEATURES)).astype("float32")
    return x, (x @ plane > 0).astype("int64")


def cross_entropy(model, x, y):
    """The sum over these samples."""
    return paddle.nn.functional.cross_entropy(model(paddle.to_tensor(x)), paddle.to_tensor(y), reduction="sum")


def evaluate(model, x, y, rank: int, world: int) -> float:
    """The accuracy over all workers, each of which looks at its part."""
    with paddle.no_grad():
        answers = model(paddle.to_tensor(x[rank::world])).numpy().argmax(axis=1)
    return total((answers == y[rank::world]).sum()) / len(x)


def total(number) -> float:
    """The sum over all workers."""
    number = paddle.to_tensor(float(number), dtype="float64")
    if dist.get_world_size() > 1:
        dist.all_reduce(number)
    return float(number)


if __name__ == "__main__":
    main()
