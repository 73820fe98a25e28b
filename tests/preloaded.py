"""The module that the workers' fork server imports in tests: what workers of any test play.

An environment that a test defines has its worker import the test, and with it torch.
"""

import gc

import workflow_rl.api
import workflow_rl.cage2.compiled.preload
import workflow_rl.cage2.cyborg.preload
import workflow_rl.collection.worker_preload
import workflow_rl.environments.making  # noqa: F401

gc.collect()
