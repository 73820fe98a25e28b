"""Adapters for simulators of the field. `--env` names a class or function of a module here, such as
`workflow_rl.field.nasim:with_masks`. Each module imports its simulator, which must be installed."""
