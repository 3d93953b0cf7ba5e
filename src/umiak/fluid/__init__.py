"""Programs of `paddle.fluid` 1.8 on today's Paddle: recorded as a list of operations, and replayed with the dynamic graph.

    import umiak.fluid

    umiak.fluid.install()
    import paddle.fluid as fluid

What works and what is refused, and why, is in docs/reference/fluid.md.
"""

from umiak.fluid.installing import install

__all__ = ["install"]
