# A virtual environment with pytest and the packages of the project. The project
# itself is not in it: tests are to see the work, not a copy.
src=$tmp/src
cp -R "$BAILEY_SRC/." "$src"
if ! python3 -m venv "$out" 2>"$tmp/venv.log"; then
	cat "$tmp/venv.log" >&2
	echo 'python3 has no complete module venv (on Debian and Ubuntu: install python3-venv)' >&2
	exit 1
fi
cd "$src"
# Without a repository no version can be made of one.
export SETUPTOOLS_SCM_PRETEND_VERSION=0 PBR_VERSION=0 PIP_CONFIG_FILE=/dev/null PIP_NO_INPUT=1 PIP_NO_CACHE_DIR=1 PIP_PROGRESS_BAR=off PIP_DISABLE_PIP_VERSION_CHECK=1
exec "$out/bin/python3" -c "$BAILEY_COLLECT" "$src" "$BAILEY_REPO" "$@"
