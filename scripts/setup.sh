# Sourced by the other scripts: `set_up requirements.txt` makes .venv, and installs the file and the
# checkout into it. A second call with the same file installs nothing.

set_up() {
  local requirements=$1 stamp python
  stamp=".venv/.$requirements.$(cat requirements*.txt pyproject.toml | cksum | cut -d ' ' -f 1)"
  [ -f "$stamp" ] && return
  for python in python3.11 python3.12 python3.13 python3; do
    if "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null
    then break; fi
    python=
  done
  if [ -z "$python" ]; then
    echo "Python 3.11, 3.12 or 3.13 is needed, and none is on the path." >&2
    return 1
  fi
  echo "Setting up .venv from $requirements (once; one to three minutes)..." >&2
  [ -x .venv/bin/python ] || "$python" -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$requirements"
  # In any folder, `workflow-rl` and `import workflow_rl` are then those of this checkout.
  .venv/bin/python -m pip install --quiet --disable-pip-version-check \
    --no-deps --no-build-isolation --editable .
  touch "$stamp"
}
