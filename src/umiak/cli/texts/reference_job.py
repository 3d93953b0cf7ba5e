"""The reference page of job.yaml as Markdown, made from the table of keys. A decider."""

from __future__ import annotations

from umiak.schema import kinds
from umiak.submit import job_keys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from umiak.schema.keys import Key

PAGE = """\
<!-- Made by `python docs/generate.py` from umiak.submit.job_keys. Change these, not this file. -->

# job.yaml

What is run, and nothing of where: the same file goes to any place with [`umiak submit`](submit.md).

```yaml
name: ctr
command: train.py --lr 0.1
nodes: 2
workers: 4
env:
  OMP_NUM_THREADS: 4
secrets: [WANDB_API_KEY]
restarts: 2
time_limit: 12h
```

With parameter servers:

```yaml
name: wide_and_deep
command: train.py
roles:
  server: {nodes: 2}
  trainer: {nodes: 4, cpus: 8, memory: 16GiB}
```

## Keys of a job

| key | value | default | meaning |
|---|---|---|---|
{job}

## Keys of a role

Below `roles`, each of `server`, `trainer` and `heter` has these keys. What a role does not say, the job says for it; `env` is added to the job's.

| key | value | default | meaning |
|---|---|---|---|
{role}

All mistakes of a file are reported at once, each with its line, and the exit status is 2.

## What differs on a place

One file goes to places that differ. Below `on`, each place has the keys of a job that count there alone:

```yaml
name: ctr
command: train.py
image: registry.example.org/paddle:3.3
secrets: [WANDB_API_KEY]
roles:
  server: {nodes: 2}
  trainer: {nodes: 4, cpus: 8}
on:
  lab: {image: null}                       # ssh hosts run no containers
  ray: {image: null, secrets: []}          # Ray can't keep a secret
  aihc: {roles: {server: {cpus: 8}}}       # all of its nodes are alike
  local:
    image: null
    env: {OMP_NUM_THREADS: 1}
    roles: {trainer: {nodes: 1}}
```

- The names are those of places in `umiak.toml`, and `local`. A name that is in no file here is a warning.
- Every key but `name` and `on` can be overridden. The value replaces the job's; `null`, an empty text or an empty list takes it away.
- `env` is merged variable by variable, and `roles` role by role and key by key. `inputs`, `outputs`, `include` and the others are replaced as a whole.
- The job must be complete without its overrides, and with each of them. All are checked, also those of places that are not asked for.
- `umiak submit` prints which keys were overridden. `--dry_run` shows the job as the place gets it.

A key that can't be obeyed on a place is an error or a printed warning: `image` is an error where nodes are no containers (`local`, ssh, Slurm, MPI, Ray).
On `local`, cores and memory are shared by all workers, however many the job asks for; each worker that asks for a device needs one, and as many are
started as there are devices for. What is less than asked for is printed.

## In an editor

`umiak submit --schema` prints a JSON schema of these keys; it is also in the installed package, as `umiak/submit/job.schema.json`. For editors with the
YAML language server, write it to a file and name that in the first line of the job:

```yaml
# yaml-language-server: $schema=job.schema.json
```
"""


def job_reference() -> str:
    """docs/reference/job.md."""
    own = [key for key in job_keys.JOB if key not in job_keys.ROLE]
    rows = {"job": [*own, *job_keys.ROLE], "role": [*job_keys.ROLE]}
    page = PAGE
    for name, keys in rows.items():
        page = page.replace(f"{{{name}}}", "\n".join(map(_row, keys)))
    return page


def _row(key: Key) -> str:
    value = " ".join(f"`{each}`" for each in key.choices) if key.kind is kinds.CHOICE else key.kind.phrase
    default = key.default_said or ("required" if key.required else "" if key.default is None else f"`{key.default}`")
    return f"| `{key.name}` | {value} | {default or '-'} | {key.meaning} |"
