.PHONY: setup test docs pages notebook lint bench long soak parity mutants processors clients ray image

setup:
	bash -c 'source scripts/setup.sh && set_up requirements-dev.txt'

test:
	bash scripts/run_tests.sh

soak: setup
	.venv/bin/python -m pytest -m slow --timeout 3600 -v tests/faults

long: setup
	bash scripts/run_long_checks.sh

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/python scripts/count_house.py

bench: setup
	.venv/bin/python -m workflow_rl benchmark --modes steps --n-envs 1 --n-envs 1000
	.venv/bin/python -m workflow_rl benchmark

parity:
	bash scripts/check_parity.sh

mutants:
	bash -c 'source scripts/setup.sh && set_up requirements-mutants.txt'
	.venv/bin/python scripts/check_mutants.py

processors: setup
	.venv/bin/python scripts/check_processors.py

docs:
	bash scripts/build_docs.sh

pages:
	bash scripts/check_pages.sh

notebook:
	bash scripts/check_notebook.sh

clients: setup
	.venv/bin/python scripts/check_clients.py

ray:
	bash scripts/check_ray.sh

image:
	bash scripts/check_dockerfile.sh
