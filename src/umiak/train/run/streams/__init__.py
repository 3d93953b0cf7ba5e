"""Training on a stream, pass by pass. A package.

state       which messages are done: what a checkpoint has
arrivals    waits for messages, and says which are the next pass
stage       the data of a pass
loop        what a trainer goes through
"""
