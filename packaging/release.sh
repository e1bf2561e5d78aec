#!/bin/bash
# Builds what a release ships, in dist/: the wheel, and the wheel of the weights. Needs `make setup`.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf dist build
.venv/bin/python -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation \
    --wheel-dir dist .
.venv/bin/python packaging/minilm_wheel.py --out dist
rm -rf build ./*.egg-info
ls -l dist
