"""What the code of a model remembers from one call to the next. A package.

traces       looks at a model that leave nothing behind
generators   what its code draws from
"""
