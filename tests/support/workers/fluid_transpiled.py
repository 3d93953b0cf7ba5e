"""A convolutional network of fluid by DistributeTranspiler, as a page on training in the cloud has it: fluid_transpiled.py DIRECTORY."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import paddle
import paddle.fluid as fluid

BATCHES, BATCH = 6, 8


def loss_net(hidden, label):
    prediction = fluid.layers.fc(input=hidden, size=10, act="softmax")
    loss = fluid.layers.cross_entropy(input=prediction, label=label)
    avg_loss = fluid.layers.mean(loss)
    acc = fluid.layers.accuracy(input=prediction, label=label)
    return prediction, avg_loss, acc


def conv_net(img, label):
    conv_pool_1 = fluid.nets.simple_img_conv_pool(
        input=img, filter_size=5, num_filters=4, pool_size=2, pool_stride=2, act="relu"
    )
    conv_pool_1 = fluid.layers.batch_norm(conv_pool_1)
    conv_pool_2 = fluid.nets.simple_img_conv_pool(
        input=conv_pool_1, filter_size=5, num_filters=6, pool_size=2, pool_stride=2, act="relu"
    )
    return loss_net(conv_pool_2, label)


def rows():
    """Images whose label is the brightest of ten stripes."""
    chance = np.random.default_rng(3)
    for _ in range(BATCHES * BATCH):
        image, label = chance.normal(scale=0.1, size=(1, 28, 28)).astype("float32"), int(chance.integers(10))
        image[0, 2 * label : 2 * label + 4] += 1
        yield image, label


def build():
    img = fluid.layers.data(name="img", shape=[1, 28, 28], dtype="float32")
    label = fluid.layers.data(name="label", shape=[1], dtype="int64")
    _, avg_loss, acc = conv_net(img, label)
    test_program = fluid.default_main_program().clone(for_test=True)
    fluid.optimizer.Adam(learning_rate=0.001).minimize(avg_loss)
    return [img, label], [acc, avg_loss], test_program


def train_loop(exe, program, feeds, fetched, test_program):
    """Losses of all batches, twice through them, and the loss of a test."""
    train_reader = paddle.batch(rows, batch_size=BATCH)
    feeder = fluid.DataFeeder(feed_list=feeds, place=fluid.CPUPlace())
    losses = []
    for _ in range(2):
        for data in train_reader():
            _, loss = exe.run(program, feed=feeder.feed(data), fetch_list=fetched)
            losses.append(float(loss[0]))
    data = next(train_reader())
    losses.append(float(exe.run(test_program, feed=feeder.feed(data), fetch_list=fetched)[1][0]))
    return losses


def alone():
    """What one process computes."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(fluid.Scope()):
        feeds, fetched, test = build()
        startup.random_seed = 5
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        return train_loop(exe, main, feeds, fetched, test)


def main(directory):
    role = os.environ["TRAINING_ROLE"]
    pservers = os.environ["PADDLE_PSERVERS_IP_PORT_LIST"]
    trainers = int(os.environ["PADDLE_TRAINERS_NUM"])
    trainer_id = int(os.getenv("PADDLE_TRAINER_ID", "0"))
    feeds, fetched, test = build()
    fluid.default_startup_program().random_seed = 5
    exe = fluid.Executor(fluid.CPUPlace())
    t = fluid.DistributeTranspiler()
    t.transpile(trainer_id, pservers=pservers, trainers=trainers)
    if role == "PSERVER":
        endpoint = f"{os.environ['POD_IP']}:{os.environ['PADDLE_PORT']}"
        pserver_prog = t.get_pserver_program(endpoint)
        exe.run(t.get_startup_program(endpoint, pserver_prog))
        exe.run(pserver_prog)
        return
    trainer_prog = t.get_trainer_program()
    exe.run(fluid.default_startup_program())
    losses = train_loop(exe, trainer_prog, feeds, fetched, test)
    exe.close()
    found = {"losses": losses, "alone": alone() if trainer_id == 0 else None}
    (Path(directory) / f"trainer.{trainer_id}").write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
