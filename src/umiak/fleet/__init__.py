"""Programs that call ``paddle.distributed.fleet`` with parameter servers, on umiak's servers.

`umiak.fleet.patching.install` replaces in the imported Paddle what its wheels no longer carry out: roles, a static
program that is trained with tables on servers, saving and loading. A program that trains collectively keeps Paddle's
own calls.
"""
