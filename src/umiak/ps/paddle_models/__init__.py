"""A plain Paddle model on our tables: an `nn.Layer` and its optimizer, unchanged, learn through a session. An adapter.

plan = plan_of(model, optimizers, is_shared=True)     what becomes a table, how everything learns, what can't be done
optimizer = carry_over(model, plan, session=session)  from now on `model(...)` reads rows from tables
loss = model(batch); loss.backward()
optimizer.step(share=None); optimizer.clear_grad()
"""

from __future__ import annotations

from umiak.ps.paddle_models.carrying import CarriedOptimizer, carry_over
from umiak.ps.paddle_models.plans import ModelPlan, TableChoice
from umiak.ps.paddle_models.reading import plan_of, used_elsewhere

__all__ = [
    "CarriedOptimizer",
    "ModelPlan",
    "TableChoice",
    "carry_over",
    "plan_of",
    "used_elsewhere",
]
