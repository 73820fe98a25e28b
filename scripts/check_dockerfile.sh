#!/usr/bin/env bash
# Builds the image with docker, podman or buildah, and runs `doctor` in it. Options go on to the
# build. A machine that reaches no registry of images names an own one with Debian's Python 3.11:
# --build-arg PYTHON=IMAGE.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
image=workflow-rl-check
if docker info >/dev/null 2>&1; then tool=docker
elif command -v podman >/dev/null; then tool=podman
elif command -v buildah >/dev/null; then tool=buildah
else
  echo "docker (with its daemon), podman or buildah is needed." >&2
  exit 1
fi
if [ "$tool" = buildah ]; then
  buildah build --isolation chroot --tag "$image" "$@" .
  container=$(buildah from "$image")
  trap 'buildah rm "$container" >/dev/null' EXIT
  buildah run --isolation chroot "$container" -- workflow-rl doctor
else
  "$tool" build --tag "$image" "$@" .
  "$tool" run --rm "$image" doctor
fi
