"""`fluid.io`: what is saved of a program, and how it is read again."""
