"""What of `paddle.fluid` there is, as tables: names, signatures of layers, and what is refused. Needs no Paddle."""
