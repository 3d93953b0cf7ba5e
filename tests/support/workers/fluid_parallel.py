"""A program of 1.8 on several processes: each has rows of its own, and writes what it has learned as JSON."""

import json
import sys
import warnings

import numpy as np

warnings.simplefilter("ignore")

import umiak.fluid

umiak.fluid.install()
import paddle.fluid as fluid


class Model(fluid.dygraph.Layer):
    def __init__(self):
        super().__init__()
        self.rows = fluid.dygraph.Embedding([7, 4], is_sparse=True)
        self.hidden = fluid.dygraph.Linear(4, 5, act="tanh")
        self.out = fluid.dygraph.Linear(5, 1)

    def forward(self, ids):
        return self.out(self.hidden(self.rows(ids)))


def train(rank, ranks, parallel):
    """Its own half of each batch; alone, the whole batch."""
    model = Model()
    if parallel:
        strategy = fluid.dygraph.parallel.prepare_context()
        model = fluid.dygraph.parallel.DataParallel(model, strategy)
    optimizer = fluid.optimizer.Adam(0.05, parameter_list=model.parameters())
    chance = np.random.default_rng(3)
    losses = []
    for _ in range(4):
        ids, wanted = chance.integers(0, 7, 8), chance.normal(size=(8, 1)).astype("float32")
        if parallel:
            ids, wanted = ids[rank::ranks], wanted[rank::ranks]
        found = model(fluid.dygraph.to_variable(ids))
        loss = fluid.layers.mean(fluid.layers.square_error_cost(found, fluid.dygraph.to_variable(wanted)))
        losses.append(float(loss.numpy()[0]))
        if parallel:
            loss = model.scale_loss(loss)
        loss.backward()
        if parallel:
            model.apply_collective_grads()
        optimizer.minimize(loss)
        model.clear_gradients()
    return losses, {key: each.numpy().tolist() for key, each in model.state_dict().items()}


place = fluid.CPUPlace()
env = fluid.dygraph.Env()
with fluid.dygraph.guard(place):
    # Every process begins with other parameters; those of the first one count.
    fluid.default_startup_program().random_seed = 10 + env.local_rank
    losses, state = train(env.local_rank, env.nranks, parallel=True)
told = {"rank": env.local_rank, "ranks": env.nranks, "losses": losses, "state": state}
if env.local_rank == 0:
    with fluid.dygraph.guard(place):
        fluid.default_startup_program().random_seed = 10
        told["alone"] = train(0, 1, parallel=False)
with open(f"{sys.argv[1]}/told.{env.local_rank}", "w") as file:
    json.dump(told, file)
