"""`fluid.dygraph`: layers, rates and files of programs whose operations run at once."""
